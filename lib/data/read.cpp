// Blocks of lines go to all threads in pieces; what they make of them is put together in the order of the file.
#include "data/read.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/block_reader.h"
#include "data/encode.h"
#include "data/source.h"
#include "data/token_file.h"

namespace fathom::data {
namespace {

namespace fs = std::filesystem;
using config::DatasetFormat;

constexpr size_t kPieceBytes = size_t{64} << 10;
constexpr size_t kMostComplaints = 5;
constexpr int64_t kSharesLookedAt = 1000;  // lines of which is told how much of them the assistant says
constexpr int kTokensVersion = 2;          // a change of how lines become tokens counts it up

// Lines that one thread takes at once, and what became of them.
struct Piece {
  std::string_view lines;
  int64_t first_line = 0;
  Words examples;
  Notes notes;
  std::vector<std::string> complaints;  // the first few
  int64_t malformed = 0;                // lines
  std::exception_ptr failure;           // what is no line's fault
};

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

// Calls on_line(line, number) for each line that is not blank.
template <typename OnLine>
void for_each_line(std::string_view lines, int64_t number, const OnLine& on_line) {
  for (size_t start = 0; start < lines.size(); ++number) {
    const size_t end = std::min(lines.find('\n', start), lines.size());
    const std::string_view line = lines.substr(start, end - start);
    if (!is_blank(line)) on_line(line, number);
    start = end + 1;
  }
}

std::vector<Piece> cut_into_pieces(std::string_view block, int64_t& line) {
  std::vector<Piece> pieces;
  for (size_t start = 0; start < block.size();) {
    const size_t feed = block.find('\n', std::min(start + kPieceBytes, block.size()) - 1);
    const size_t end = feed == std::string_view::npos ? block.size() : feed + 1;
    Piece& piece = pieces.emplace_back();
    piece.lines = block.substr(start, end - start);
    piece.first_line = line;
    line += std::count(piece.lines.begin(), piece.lines.end(), '\n');
    start = end;
  }
  return pieces;
}

// Calls work(piece) for each, on so many threads; each piece is worked on once; where one fails, some behind it may be
// left out, and none before it.
void in_parallel(std::vector<Piece>& pieces, int64_t threads, const std::function<void(Piece&)>& work) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> fails = false;
  const auto take = [&] {
    while (!fails) {
      const size_t i = next++;
      if (i >= pieces.size()) return;
      try {
        work(pieces[i]);
      } catch (...) {
        pieces[i].failure = std::current_exception();
        fails = true;
      }
    }
  };
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < std::min(threads, std::ssize(pieces)); ++i) others.emplace_back(take);
  take();
}

class FileReader {
 public:
  FileReader(const fs::path& file, const tokenizer::Tokenizer* tokenizer, const DatasetOptions& options)
      : file_(file), tokenizer_(tokenizer), options_(options), format_(options.format) {
    threads_ = options.threads > 0 ? options.threads : std::max<int64_t>(1, std::thread::hardware_concurrency());
  }

  // on_words: takes the words of a block, whose places count on from those before.
  void read(const std::function<void(const std::vector<int32_t>&)>& on_words) {
    BlockReader blocks(file_);
    int64_t line = 1;
    uint64_t bytes = 0;
    for (std::string_view block = blocks.next(); !block.empty(); block = blocks.next()) {
      if (!first_) find_first(block, line);
      std::vector<Piece> pieces = cut_into_pieces(block, line);
      in_parallel(pieces, threads_, [this](Piece& piece) { encode(piece); });
      for (Piece& piece : pieces) take(piece, on_words);
      bytes += block.size();
      show_progress(bytes, blocks.file_bytes());
    }
    if (malformed_ > 0) complain();
    if (!first_)
      throw Error(file_.string() + ": holds no examples", "write one JSON object on each line (docs/data.md)");
  }

  std::vector<Place> take_places() { return std::move(places_); }
  const Truncation& truncation() const { return truncation_; }
  const Notes& notes() const { return notes_; }
  int64_t duplicates() {
    std::sort(hashes_.begin(), hashes_.end());
    return hashes_.end() - std::unique(hashes_.begin(), hashes_.end());
  }

 private:
  std::string place_of(int64_t line) const { return file_.string() + ":" + std::to_string(line); }

  // The first line says of what format the file is.
  void find_first(std::string_view block, int64_t number) {
    if (number == 1) refuse_other_files(file_, block);
    for_each_line(block, number, [this](std::string_view text, int64_t line) {
      if (first_) return;
      first_ = true;
      const Line first(text, place_of(line));
      recognised_ = format_ == DatasetFormat::kAuto;
      if (recognised_ && options_.answers > 1 && first.value.contains("prompt") &&
          !first.value.contains("completion")) {
        format_ = DatasetFormat::kPreference;  // a line without one of its keys is told so
        recognised_ = false;
      }
      if (recognised_) format_ = recognise(first);
      if (options_.answers > 1 && format_ != DatasetFormat::kPreference) {
        first.fail("is a line of " + std::string(describe(format_)) + ", but the objective learns preferences",
                   "write prompt, chosen and rejected");
      }
      converses_ = is_conversation(first, format_);
      if (converses_ && options_.open_chat) chat_ = options_.open_chat();
    });
  }

  void encode(Piece& piece) const {
    for_each_line(piece.lines, piece.first_line, [&](std::string_view text, int64_t number) {
      try {
        const Line line(text, place_of(number));
        const DatasetFormat format = recognised_ ? recognise(line) : format_;
        if (format != format_) {
          line.fail("is a line of " + std::string(describe(format)) + ", earlier lines are of " +
                    std::string(describe(format_)));
        }
        if (!converses_ && is_conversation(line, format)) line.fail("is a conversation, earlier lines are texts");
        const Encoders encoders{tokenizer_, chat_ ? &*chat_ : nullptr};
        LineNotes notes;
        notes.looks_at_share = number <= kSharesLookedAt;
        if (options_.answers > 1) {
          for (const Example& row : encode_preference(line, encoders, options_, notes)) append(row, line, piece);
        } else if (options_.decoder_start) {
          piece.examples.append(encode_pair(line, format, encoders, options_, piece.examples.truncation, notes));
        } else {
          append(encode_line(line, format, encoders, options_, notes), line, piece);
        }
        piece.notes.add(notes, number);
      } catch (const EveryLineFails&) {
        throw;
      } catch (const Error& error) {
        if (piece.malformed++ < static_cast<int64_t>(kMostComplaints)) piece.complaints.emplace_back(error.what());
      }
    });
  }

  // An embedding of a placeholder is what no model was trained to read.
  void append(const Example& example, const Line& line, Piece& piece) const {
    const auto& refused = options_.placeholder_ids;
    const auto found = std::ranges::find_first_of(example.ids, refused);
    if (found != example.ids.end()) {
      const std::string text = tokenizer_ == nullptr ? "" : " (" + tokenizer_->piece(*found) + ")";
      line.fail(
          "holds the token " + std::to_string(*found) + text + ", in whose place the model reads a picture or sound",
          "text alone is trained on: leave such lines out, or take the token out of the text");
    }
    piece.examples.append(example);
  }

  void take(Piece& piece, const std::function<void(const std::vector<int32_t>&)>& on_words) {
    if (piece.failure) std::rethrow_exception(piece.failure);
    for (std::string& complaint : piece.complaints) {
      if (complaints_.size() < kMostComplaints) complaints_.push_back(std::move(complaint));
    }
    malformed_ += piece.malformed;
    if (malformed_ > 0) return;  // the file is refused: only the count goes on
    truncation_.add(piece.examples.truncation);
    notes_.add(piece.notes);
    const std::vector<int32_t>& words = piece.examples.words;
    const std::vector<Place>& places = piece.examples.places;
    const auto rows = static_cast<size_t>(options_.answers);
    for (size_t i = 0; i < places.size(); ++i) {
      if (i % rows == 0) {
        const uint64_t begin = places[i].first, end = i + rows < places.size() ? places[i + rows].first : words.size();
        const auto* bytes = reinterpret_cast<const char*>(words.data() + begin);
        hashes_.push_back(std::hash<std::string_view>{}({bytes, (end - begin) * sizeof(int32_t)}));
      }
      places_.push_back(places[i]);
      places_.back().first = places[i].first + words_;
    }
    words_ += words.size();
    on_words(words);
  }

  [[noreturn]] void complain() const {
    std::string text;
    for (const std::string& complaint : complaints_) text += (text.empty() ? "" : "\n") + complaint;
    const int64_t more = malformed_ - std::ssize(complaints_);
    if (more > 0) text += "\n" + file_.string() + ": and " + std::to_string(more) + " more malformed lines";
    throw Error(text);
  }

  void show_progress(uint64_t bytes, uint64_t all) const {
    constexpr uint64_t kWorthShowing = uint64_t{64} << 20;
    if (all < kWorthShowing) return;
    log_progress("tokenizing " + file_.string() + ": " + std::to_string(100 * bytes / all) + " %");
  }

  const fs::path file_;
  const tokenizer::Tokenizer* tokenizer_;
  const DatasetOptions& options_;
  std::optional<chat::ChatTemplate> chat_;
  int64_t threads_ = 1;
  bool first_ = false;       // a line has been seen
  bool recognised_ = false;  // the format is that of the first line, not the config's
  bool converses_ = false;   // the first line is a conversation
  DatasetFormat format_;
  std::vector<Place> places_;
  Truncation truncation_;
  Notes notes_;
  std::vector<uint64_t> hashes_;  // of the examples
  uint64_t words_ = 0;
  std::vector<std::string> complaints_;
  int64_t malformed_ = 0;
};

std::string hash_of(const fs::path& file) {
  Hasher hasher;
  BlockReader blocks(file);
  for (std::string_view block = blocks.next(); !block.empty(); block = blocks.next()) {
    hasher.update(block.data(), block.size());
  }
  return hasher.digest();
}

// " 10 11"
std::string text_of(const std::vector<int64_t>& ids) {
  std::string text;
  for (const int64_t id : ids) text += " " + std::to_string(id);
  return text;
}

// Everything that decides what tokens a file becomes.
std::string key_of(const fs::path& file, const DatasetOptions& options) {
  const auto flag = [](std::optional<bool> value) { return value ? *value ? "1" : "0" : "-"; };
  const std::string parts = std::to_string(kTokensVersion) + " " + hash_of(file) + " " + options.identity + " " +
                            std::to_string(static_cast<int>(options.format)) + flag(options.completion_only_loss) +
                            flag(options.assistant_only_loss) + flag(options.split_special_tokens) + " " +
                            std::to_string(options.vocabulary_size) +
                            (options.answers > 1 ? " " + std::to_string(options.answers) : "") +
                            text_of(options.placeholder_ids);
  return hash_bytes(parts.data(), parts.size());
}

KeptTokens read_in_memory(const fs::path& file, const tokenizer::Tokenizer* tokenizer, const DatasetOptions& options) {
  FileReader reader(file, tokenizer, options);
  std::vector<int32_t> all;
  reader.read([&](const std::vector<int32_t>& words) { all.insert(all.end(), words.begin(), words.end()); });
  all.shrink_to_fit();
  const int64_t duplicates = reader.duplicates();
  return {tokens_in_memory(std::move(all)), reader.take_places(), duplicates, reader.truncation(), reader.notes()};
}

KeptTokens read_through_file(const fs::path& file, const tokenizer::Tokenizer* tokenizer,
                             const DatasetOptions& options) {
  const auto size = fs::file_size(file);
  const auto changed = fs::last_write_time(file);
  const std::string key = key_of(file, options);
  if (auto kept = open_tokens(options.cache_folder, key, options.vocabulary_size)) return std::move(*kept);
  FileReader reader(file, tokenizer, options);
  TokenFileWriter writer(options.cache_folder, key);
  reader.read([&](const std::vector<int32_t>& words) { writer.write(words); });
  if (fs::file_size(file) != size || fs::last_write_time(file) != changed) {
    throw Error(file.string() + " was changed while it was read", "start again when it is complete");
  }
  const int64_t duplicates = reader.duplicates();
  writer.finish(reader.take_places(), duplicates, reader.notes());
  auto kept = open_tokens(options.cache_folder, key, options.vocabulary_size);
  if (!kept) throw TokenFileError("the tokens of " + file.string() + " could not be read back", "is the disk sound?");
  return std::move(*kept);
}

[[noreturn]] void refuse_without_target(const fs::path& file, const Dataset& whole, int64_t max_length) {
  int64_t shortest = INT64_MAX, longest = 0;  // tokens before the first target
  for (int64_t row = 0; row < whole.row_count(); ++row) {
    if (whole.target_count(row) == 0) continue;
    const std::vector<int32_t> labels = whole.example(row).labels;
    const auto first = std::find_if(labels.begin() + 1, labels.end(), [](int32_t label) { return label != kIgnored; });
    shortest = std::min<int64_t>(shortest, first - labels.begin());
    longest = std::max<int64_t>(longest, first - labels.begin());
  }
  const std::string nothing = file.string() + ": no example has a token to learn";
  if (longest == 0) throw Error(nothing, "raise max_length, or look at the labels");
  throw Error(nothing + " within max_length " + std::to_string(max_length) + ": before the first one come " +
                  format_count(shortest) + " tokens and more, " + format_count(longest) + " of the longest prompt",
              "raise max_length");
}

}  // namespace

FileExamples read_file_examples(const fs::path& file, const tokenizer::Tokenizer* tokenizer,
                                const DatasetOptions& options) {
  if (options.max_length < 1) throw Error("max_length: expected at least 1");
  FileExamples result;
  KeptTokens kept = [&] {
    if (options.cache_folder.empty() || options.decoder_start) return read_in_memory(file, tokenizer, options);
    try {
      return read_through_file(file, tokenizer, options);
    } catch (const TokenFileError& error) {
      result.not_kept = error.what();
    }
    return read_in_memory(file, tokenizer, options);
  }();
  result.examples = std::ssize(kept.places) / options.answers;
  result.duplicates = kept.duplicates;
  Dataset whole(std::move(kept.tokens), std::move(kept.places), kept.truncation);
  whole.set_decoder_start(options.decoder_start);
  whole.set_rows_of_example(options.answers);
  result.notes = std::move(kept.notes);
  result.dataset = whole.cut(options.max_length);
  if (result.dataset.empty()) refuse_without_target(file, whole, options.max_length);
  return result;
}

Dataset read_dataset(const fs::path& file, const tokenizer::Tokenizer* tokenizer, const DatasetOptions& options) {
  return read_file_examples(file, tokenizer, options).dataset;
}

}  // namespace fathom::data
