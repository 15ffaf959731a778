// Makes the parts of a tokenizer.json of the model's pieces.
#include "tokenizer/spiece.h"

#include "base/error.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/sentencepiece_model.h"

namespace fathom::tokenizer {
namespace {

constexpr uint64_t kExtraIds = 100;
constexpr int32_t kUnknownId = 2;

void check(const SentencePieceModel& model, const TokenizerFiles& files, const std::filesystem::path& path) {
  if (!files.tokenizer_class.empty() && !files.is_t5()) {
    throw Error((path.parent_path() / "tokenizer_config.json").string() + ": tokenizer_class \"" +
                    files.tokenizer_class + "\" is not supported with a spiece.model",
                "the class that there is: T5Tokenizer. A tokenizer.json alone may be of any class");
  }
  if (model.algorithm != SentencePieceModel::kUnigram) {
    throw Error(path.string() + ": trainer_spec.model_type: " + std::to_string(model.algorithm) + " is not supported",
                "the one that is: 1, Unigram");
  }
  if (model.types.size() <= kUnknownId || model.types[kUnknownId] != SentencePieceModel::kUnknown) {
    throw Error(path.string() + ": expected piece 2 to be the unknown one, as T5's");
  }
  for (size_t id = 0; id < model.types.size(); ++id) {
    if (model.types[id] != SentencePieceModel::kByte) continue;
    throw Error(path.string() + ": piece " + std::to_string(id) + ": byte_fallback is not supported");
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_spiece(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "spiece.model";
  SentencePieceModel model = read_sentencepiece_model(path);
  Pipeline pipeline;
  pipeline.file = path.string();
  pipeline.files = read_tokenizer_files(folder);
  check(model, pipeline.files, path);

  TokenizerFiles& files = pipeline.files;
  if (!files.eos) files.eos = "</s>";
  if (!files.unk) files.unk = "<unk>";
  if (!files.pad) files.pad = "<pad>";
  files.adds_bos = files.adds_eos = std::nullopt;
  UnigramVocabulary vocabulary;
  vocabulary.pieces = std::move(model.pieces);
  vocabulary.scores.assign(model.scores.begin(), model.scores.end());
  for (size_t id = 0; id < model.types.size(); ++id) {
    if (model.types[id] == SentencePieceModel::kControl) files.other_special.push_back(vocabulary.pieces[id]);
    if (model.types[id] != SentencePieceModel::kUserDefined) continue;
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
