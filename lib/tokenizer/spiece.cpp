// Reads the model's protocol buffer into the parts of a tokenizer.json.
#include "tokenizer/spiece.h"

#include <bit>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/protobuf.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kMaxModelBytes = size_t{1} << 25;  // the largest in use have 5 MB
constexpr uint64_t kExtraIds = 100;
constexpr int32_t kUnknownId = 2;

// SentencePiece's numbers for what a piece is, and for the algorithm.
constexpr uint64_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6;
constexpr uint64_t kUnigram = 1;

struct Model {
  UnigramVocabulary vocabulary;
  std::vector<uint64_t> types;  // of the pieces
  std::string characters;       // precompiled_charsmap
  uint64_t algorithm = kUnigram;
};

bool read_piece(std::string_view message, Model& model) {
  std::string text;
  double score = 0;
  uint64_t type = kNormal;
  const bool whole = for_each_field(message, [&](const ProtobufField& field) {
    if (field.number == 1) text = field.bytes;
    if (field.number == 3) type = field.value;
    if (field.number != 2 || field.bytes.size() != sizeof(float)) return;
    uint32_t bits = 0;
    for (size_t i = sizeof bits; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(field.bytes[i]);
    score = std::bit_cast<float>(bits);
  });
  model.vocabulary.pieces.push_back(std::move(text));
  model.vocabulary.scores.push_back(score);
  model.types.push_back(type);
  return whole;
}

Model read_model(const std::filesystem::path& path) {
  const std::string proto = read_file(path, kMaxModelBytes);
  refuse_other_kind(path, proto, "a SentencePiece model");
  Model model;
  bool whole = true;
  whole &= for_each_field(proto, [&](const ProtobufField& part) {
    if (part.kind != 2) return;
    if (part.number == 1) whole &= read_piece(part.bytes, model);
    if (part.number != 2 && part.number != 3) return;
    whole &= for_each_field(part.bytes, [&](const ProtobufField& field) {
      if (part.number == 2 && field.number == 3) model.algorithm = field.value;   // trainer_spec.model_type
      if (part.number == 3 && field.number == 2) model.characters = field.bytes;  // normalizer_spec
    });
  });
  if (!whole || model.types.empty()) {
    throw Error(path.string() + ": not a SentencePiece model", "download the file again");
  }
  return model;
}

void check(const Model& model, const TokenizerFiles& files, const std::filesystem::path& path) {
  if (!files.tokenizer_class.empty() && !files.is_t5()) {
    throw Error((path.parent_path() / "tokenizer_config.json").string() + ": tokenizer_class \"" +
                    files.tokenizer_class + "\" is not supported with a spiece.model",
                "the class that there is: T5Tokenizer. A tokenizer.json alone may be of any class");
  }
  if (model.algorithm != kUnigram) {
    throw Error(path.string() + ": trainer_spec.model_type: " + std::to_string(model.algorithm) + " is not supported",
                "the one that is: 1, Unigram");
  }
  if (model.types.size() <= kUnknownId || model.types[kUnknownId] != kUnknown) {
    throw Error(path.string() + ": expected piece 2 to be the unknown one, as T5's");
  }
  for (size_t id = 0; id < model.types.size(); ++id) {
    if (model.types[id] != kByte) continue;
    throw Error(path.string() + ": piece " + std::to_string(id) + ": byte_fallback is not supported");
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_spiece(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "spiece.model";
  Model model = read_model(path);
  Pipeline pipeline;
  pipeline.file = path.string();
  pipeline.files = read_tokenizer_files(folder, /*only_plain=*/false);
  check(model, pipeline.files, path);

  TokenizerFiles& files = pipeline.files;
  if (!files.eos) files.eos = "</s>";
  if (!files.unk) files.unk = "<unk>";
  if (!files.pad) files.pad = "<pad>";
  files.adds_bos = files.adds_eos = std::nullopt;
  UnigramVocabulary& vocabulary = model.vocabulary;
  for (size_t id = 0; id < model.types.size(); ++id) {
    if (model.types[id] == kControl) files.other_special.push_back(vocabulary.pieces[id]);
    if (model.types[id] != kUserDefined) continue;
    AddedToken& token = pipeline.added.emplace_back();
    token.text = vocabulary.pieces[id];
    token.id = static_cast<int32_t>(id);
  }
  for (uint64_t number = files.extra_ids.value_or(kExtraIds); number-- > 0;) {
    vocabulary.pieces.push_back("<extra_id_" + std::to_string(number) + ">");
    vocabulary.scores.push_back(0);
    files.other_special.push_back(vocabulary.pieces.back());
  }
  vocabulary.unknown_id = kUnknownId;
  Unigram unigram(std::move(vocabulary), path.string() + ": pieces");
  const auto added = files.added_ids.find(*files.eos);
  pipeline.affixes.after = added != files.added_ids.end() ? added->second : unigram.find(*files.eos);
  if (!model.characters.empty()) {
    pipeline.normalizer = Normalizer(CharacterMap(model.characters, path.string() + ": precompiled_charsmap"));
  }
  pipeline.model = make_unigram_model(std::move(unigram), MarkedWords(), /*drops_first_marks=*/true);
  return make_tokenizer(std::move(pipeline));
}

}  // namespace fathom::tokenizer
