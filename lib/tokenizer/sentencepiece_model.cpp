// Reads the model's protocol buffer.
#include "tokenizer/sentencepiece_model.h"

#include <bit>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "tokenizer/protobuf.h"

namespace fathom::tokenizer {
namespace {

bool read_piece(std::string_view message, SentencePieceModel& model) {
  std::string text;
  float score = 0;
  uint64_t type = SentencePieceModel::kNormal;
  const bool whole = for_each_field(message, [&](const ProtobufField& field) {
    if (field.number == 1) text = field.bytes;
    if (field.number == 3) type = field.value;
    if (field.number != 2 || field.bytes.size() != sizeof(float)) return;
    uint32_t bits = 0;
    for (size_t i = sizeof bits; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(field.bytes[i]);
    score = std::bit_cast<float>(bits);
  });
  model.pieces.push_back(std::move(text));
  model.scores.push_back(score);
  model.types.push_back(type);
  return whole;
}

}  // namespace

SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path) {
  const std::string proto = read_file(path, kMaxModelBytes);
  refuse_other_kind(path, proto, "a SentencePiece model");
  SentencePieceModel model;
  bool whole = true;
  whole &= for_each_field(proto, [&](const ProtobufField& part) {
    if (part.kind != 2) return;
    if (part.number == 1) whole &= read_piece(part.bytes, model);
    if (part.number != 2 && part.number != 3) return;
    whole &= for_each_field(part.bytes, [&](const ProtobufField& field) {
      if (part.number == 2 && field.number == 3) model.algorithm = field.value;  // trainer_spec.model_type
      if (part.number != 3) return;                                              // normalizer_spec
      if (field.number == 2) model.characters = field.bytes;
      if (field.number == 3) model.adds_prefix = field.value != 0;
      if (field.number == 4) model.joins_blanks = field.value != 0;
    });
  });
  if (!whole || model.types.empty()) {
    throw Error(path.string() + ": not a SentencePiece model", "download the file again");
  }
  return model;
}

}  // namespace fathom::tokenizer
