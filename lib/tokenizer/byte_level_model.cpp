// Byte-level BPE behind its pre_tokenizer.
#include <algorithm>

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/bpe_words.h"
#include "tokenizer/json_part.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/text_model.h"

namespace fathom::tokenizer {
namespace {

void check_decoder(const Json& json, const std::string& file) {
  const std::string where = file + ": decoder";
  const Json* decoder = find_key(json, "decoder");
  if (decoder == nullptr) throw Error(where + ": expected ByteLevel");
  const std::string type = type_of(*decoder, where);
  if (type != "ByteLevel") reject_type(where, type, "ByteLevel");
}

class ByteLevelModel : public TextModel {
 public:
  ByteLevelModel(const Json& json, const std::string& file)
      : bpe_(json.at("model"), file, Vocabulary::Spelling::kBytes),
        pre_tokenizer_(json.value("pre_tokenizer", Json()), file) {
    check_decoder(json, file);
  }

  void encode(std::string_view text, bool at_start, Workspace& workspace, std::vector<int32_t>& ids,
              std::vector<int64_t>* begins) const override;

  int64_t size() const override { return vocabulary().size(); }
  bool contains(int64_t id) const override { return vocabulary().contains(id); }
  std::optional<int32_t> find_spelling(std::string_view spelling) const override {
    return vocabulary().find_spelling(spelling);
  }
  std::string spelling(int32_t id) const override { return vocabulary().spelling(id); }
  std::string bytes(int32_t id) const override { return std::string(vocabulary().bytes(id)); }
  std::string first_bytes(int32_t id) const override { return bytes(id); }

 private:
  const Vocabulary& vocabulary() const { return bpe_.vocabulary(); }

  Bpe bpe_;
  PreTokenizer pre_tokenizer_;
};

void ByteLevelModel::encode(std::string_view text, bool /*at_start*/, Workspace& workspace, std::vector<int32_t>& ids,
                            std::vector<int64_t>* begins) const {
  std::string prefixed;
  const bool prefixes = pre_tokenizer_.adds_prefix_space() && text[0] != ' ';
  if (prefixes) {
    prefixed.append(" ").append(text);
    text = prefixed;
  }
  pre_tokenizer_.split(text, workspace.pieces, workspace.scratch, workspace.budget);
  const size_t before = begins == nullptr ? 0 : begins->size();
  encode_words(bpe_, text, workspace.pieces, workspace, ids, begins);
  if (begins == nullptr || !prefixes) return;
  for (size_t i = before; i < begins->size(); ++i) (*begins)[i] = std::max<int64_t>((*begins)[i] - 1, 0);
}

}  // namespace

std::unique_ptr<TextModel> read_byte_level_model(const Json& json, const std::string& file) {
  return std::make_unique<ByteLevelModel>(json, file);
}

}  // namespace fathom::tokenizer
