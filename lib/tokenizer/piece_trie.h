// The pieces of a vocabulary that a text begins with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::tokenizer {

class PieceTrie {
 public:
  PieceTrie() = default;
  // pieces: none empty; the place of each is its id. Of equal pieces the last counts. where: what errors call them.
  // Throws Error where they have too many bytes that are not of a common beginning.
  PieceTrie(const std::vector<std::string>& pieces, const std::string& where);

  // Calls on_piece(bytes, id) for each piece that text begins with, from the shortest on.
  template <typename OnPiece>
  void for_each_prefix(std::string_view text, const OnPiece& on_piece) const {
    uint32_t node = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node == 0) return;
      if (nodes_[node].id >= 0) on_piece(at + 1, nodes_[node].id);
    }
  }
  std::optional<int32_t> find(std::string_view piece) const;

 private:
  struct Node {
    uint32_t first_child = 0;  // the children are ordered by their bytes, and end where those of the next node begin
    int32_t id = -1;           // -1: no piece ends here
    unsigned char byte = 0;    // that leads here
  };
  // 0: there is none.
  uint32_t child(uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;  // level by level; the last only ends the children of the one before
};

}  // namespace fathom::tokenizer
