// Unigram behind Metaspace.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/json_part.h"
#include "tokenizer/text_model.h"

namespace fathom::tokenizer {
namespace {

// A token with its marks as `blank`.
std::string with_blanks(std::string_view spelling, std::string_view blank) {
  std::string text;
  for (size_t at = 0; at < spelling.size();) {
    const size_t mark = std::min(spelling.find(kBlankMark, at), spelling.size());
    text.append(spelling.substr(at, mark - at));
    if (mark < spelling.size()) text.append(blank);
    at = mark + kBlankMark.size();
  }
  return text;
}

class UnigramModel : public TextModel {
 public:
  UnigramModel(Unigram unigram, MarkedWords words, bool drops_first_marks)
      : unigram_(std::move(unigram)), words_(words), drops_first_marks_(drops_first_marks) {}

  void encode(std::string_view text, bool at_start, Workspace& workspace, std::vector<int32_t>& ids,
              std::vector<int64_t>* begins) const override;

  int64_t size() const override { return unigram_.size(); }
  bool contains(int64_t id) const override { return id >= 0 && id < size(); }
  std::optional<int32_t> find_spelling(std::string_view spelling) const override { return unigram_.find(spelling); }
  std::string spelling(int32_t id) const override { return unigram_.piece(id); }
  std::string bytes(int32_t id) const override { return with_blanks(unigram_.piece(id), " "); }
  std::string first_bytes(int32_t id) const override {
    return with_blanks(unigram_.piece(id), drops_first_marks_ ? "" : " ");
  }

 private:
  Unigram unigram_;
  MarkedWords words_;
  bool drops_first_marks_;
};

void UnigramModel::encode(std::string_view text, bool at_start, Workspace& workspace, std::vector<int32_t>& ids,
                          std::vector<int64_t>* begins) const {
  std::string marked;
  OffsetMap origins;
  words_.split(text, at_start, marked, workspace.pieces, begins == nullptr ? nullptr : &origins);
  const std::string_view all = marked;
  if (begins == nullptr) {
    encode_pieces(all, workspace.pieces, workspace.cache, ids,
                  [&](std::string_view word) { unigram_.encode(word, workspace.unigram, ids, nullptr); });
    return;
  }
  for (const Piece& word : workspace.pieces) {
    const size_t before = begins->size();
    unigram_.encode(all.substr(word.begin, word.end - word.begin), workspace.unigram, ids, begins);
    for (size_t i = before; i < begins->size(); ++i) {
      (*begins)[i] = static_cast<int64_t>(origins.origin(word.begin + static_cast<size_t>((*begins)[i])));
    }
  }
}

// Hugging Face's tokenizers take a number's digits for a whole number and divide it by its power of ten, which is not
// always the nearest double; where sums of scores are equal but for rounding, the segmentation follows.
double score_of(const Json& number) {
  const double nearest = number.get<double>();
  std::array<char, 32> text{};
  std::to_chars(text.data(), text.data() + text.size() - 1, std::abs(nearest), std::chars_format::scientific);
  uint64_t digits = 0;
  int exponent = 0, behind_point = 0;
  const char* at = text.data();
  for (; *at != 'e' && *at != 0; ++at) {
    if (*at == '.') continue;
    digits = 10 * digits + static_cast<uint64_t>(*at - '0');
    behind_point += at > text.data() ? 1 : 0;
  }
  if (*at == 0) return nearest;
  std::from_chars(at[1] == '+' ? at + 2 : at + 1, text.data() + text.size(), exponent);
  exponent -= behind_point;
  if (std::abs(exponent) > 300) return nearest;
  const double power = std::pow(10.0, std::abs(exponent)), whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / power : whole * power, nearest);
}

UnigramVocabulary read_vocabulary(const Json& model, const std::string& where) {
  UnigramVocabulary vocabulary;
  const Json& list = list_of(model, "vocab", where);
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& token = list[i];
    if (!token.is_array() || token.size() != 2 || !token[0].is_string() || !token[1].is_number()) {
      throw Error(where + ".vocab[" + std::to_string(i) + "]: expected a token and its score");
    }
    vocabulary.pieces.push_back(token[0].get<std::string>());
    vocabulary.scores.push_back(score_of(token[1]));
  }
  const Json* unknown = find_key(model, "unk_id");
  if (unknown == nullptr || !unknown->is_number_unsigned() || unknown->get<uint64_t>() >= list.size()) {
    throw Error(where + ".unk_id: expected the id of one of the " + std::to_string(list.size()) + " tokens of vocab");
  }
  vocabulary.unknown_id = unknown->get<int32_t>();
  return vocabulary;
}

}  // namespace

std::unique_ptr<TextModel> make_unigram_model(Unigram unigram, MarkedWords words, bool drops_first_marks) {
  return std::make_unique<UnigramModel>(std::move(unigram), words, drops_first_marks);
}

std::unique_ptr<TextModel> read_unigram_model(const Json& json, const std::string& file) {
  const Json& model = json.at("model");
  const std::string where = file + ": model";
  if (read_flag(model, "byte_fallback", false, where)) throw Error(where + ".byte_fallback: true is not supported");
  MarkedWords words(json.value("pre_tokenizer", Json()), file);
  const Json* decoder = find_key(json, "decoder");
  if (decoder == nullptr) throw Error(file + ": decoder: expected Metaspace");
  const std::string type = type_of(*decoder, file + ": decoder");
  if (type != "Metaspace") reject_type(file + ": decoder", type, "Metaspace");
  const Metaspace marks = read_metaspace(*decoder, file + ": decoder");
  return make_unigram_model(Unigram(read_vocabulary(model, where), where + ".vocab"), words,
                            marks.prepends != Metaspace::Prepends::kNever);
}

}  // namespace fathom::tokenizer
