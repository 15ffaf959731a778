// Unicode's normal forms C and KC, which some tokenizers ask for before anything else.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/offset_map.h"

namespace fathom::tokenizer {

enum class NormalForm {
  kComposed,   // NFC
  kCompatible  // NFKC: letters that only look otherwise become the plain ones, too
};

// Whether no character of the text could change or join another: then the form is the text itself. False is no proof.
bool is_plainly_composed(std::string_view text, NormalForm form = NormalForm::kComposed);
// The text, which is well-formed, in the form, by utf8proc's tables (Unicode 15 in Debian 12). Time is n log n in the
// length of the longest run of combining marks. origins, if set, learns where the bytes came from; those of a sequence
// that changed all come from its beginning.
std::string compose(std::string_view text, NormalForm form = NormalForm::kComposed, OffsetMap* origins = nullptr);

}  // namespace fathom::tokenizer
