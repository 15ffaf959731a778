// Bins by the room that is left in them.
#include "data/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"

namespace fathom::data {

std::span<const int64_t> Bins::rows(int64_t bin) const {
  const int64_t start = starts_.at(static_cast<size_t>(bin)), end = starts_.at(static_cast<size_t>(bin) + 1);
  return std::span(rows_).subspan(static_cast<size_t>(start), static_cast<size_t>(end - start));
}

Bins pack(const Dataset& dataset, int64_t max_length) {
  std::vector<int64_t> longest_first(static_cast<size_t>(dataset.size()));
  std::iota(longest_first.begin(), longest_first.end(), 0);
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](int64_t a, int64_t b) { return dataset.length(a) > dataset.length(b); });
  if (!dataset.empty() && dataset.length(longest_first[0]) > max_length) {
    throw Error("a document of " + std::to_string(dataset.length(longest_first[0])) + " tokens fits into no bin of " +
                std::to_string(max_length));
  }
  std::map<int64_t, std::vector<int64_t>> bins_by_room;
  std::vector<int64_t> bin_of(longest_first.size()), first_row;
  for (const int64_t row : longest_first) {
    const auto fullest = bins_by_room.lower_bound(dataset.length(row));
    int64_t room = max_length, bin = static_cast<int64_t>(first_row.size());
    if (fullest == bins_by_room.end()) {
      first_row.push_back(row);
    } else {
      room = fullest->first;
      bin = fullest->second.back();
      fullest->second.pop_back();
      if (fullest->second.empty()) bins_by_room.erase(fullest);
    }
    bin_of[static_cast<size_t>(row)] = bin;
    first_row[static_cast<size_t>(bin)] = std::min(first_row[static_cast<size_t>(bin)], row);
    bins_by_room[room - dataset.length(row)].push_back(bin);
  }

  Bins bins;
  bins.rows_.resize(longest_first.size());
  std::iota(bins.rows_.begin(), bins.rows_.end(), 0);
  const auto first_of = [&](int64_t row) { return first_row[static_cast<size_t>(bin_of[static_cast<size_t>(row)])]; };
  std::stable_sort(bins.rows_.begin(), bins.rows_.end(),
                   [&](int64_t a, int64_t b) { return first_of(a) < first_of(b); });
  for (size_t i = 1; i <= bins.rows_.size(); ++i) {
    const bool ends = i == bins.rows_.size() || first_of(bins.rows_[i]) != first_of(bins.rows_[i - 1]);
    if (ends) bins.starts_.push_back(static_cast<int64_t>(i));
  }
  return bins;
}

}  // namespace fathom::data
