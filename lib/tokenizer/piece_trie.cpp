// Built from the sorted pieces: a node is the range of those that begin with what leads to it.
#include "tokenizer/piece_trie.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kMostNodes = size_t{1} << 24;  // each takes 24 bytes of memory here; the largest in use have a million

}  // namespace

PieceTrie::PieceTrie(const std::vector<std::string>& pieces, const std::string& where) {
  std::vector<int32_t> sorted(pieces.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) { return pieces[a] < pieces[b]; });
  struct Range {
    uint32_t low, high, depth;
  };
  std::vector<Range> ranges{{0, static_cast<uint32_t>(sorted.size()), 0}};  // of sorted, one for each node
  nodes_.emplace_back();
  for (size_t node = 0; node < ranges.size(); ++node) {
    auto [low, high, depth] = ranges[node];
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    // What ends here comes before what goes on.
    while (low < high && pieces[sorted[low]].size() == depth) nodes_[node].id = sorted[low++];
    while (low < high) {
      const auto byte = static_cast<unsigned char>(pieces[sorted[low]][depth]);
      uint32_t end = low + 1;
      while (end < high && static_cast<unsigned char>(pieces[sorted[end]][depth]) == byte) ++end;
      if (nodes_.size() == kMostNodes) throw Error(where + ": the tokens have too many different bytes");
      nodes_.push_back({.byte = byte});
      ranges.push_back({low, end, depth + 1});
      low = end;
    }
  }
  nodes_.push_back({.first_child = static_cast<uint32_t>(nodes_.size())});
}

uint32_t PieceTrie::child(uint32_t node, unsigned char byte) const {
  const auto begin = nodes_.begin() + nodes_[node].first_child, end = nodes_.begin() + nodes_[node + 1].first_child;
  const auto found =
      std::lower_bound(begin, end, byte, [](const Node& child, auto wanted) { return child.byte < wanted; });
  return found != end && found->byte == byte ? static_cast<uint32_t>(found - nodes_.begin()) : 0;
}

std::optional<int32_t> PieceTrie::find(std::string_view piece) const {
  std::optional<int32_t> found;
  for_each_prefix(piece, [&](size_t bytes, int32_t id) {
    if (bytes == piece.size()) found = id;
  });
  return found;
}

}  // namespace fathom::tokenizer
