// What each of several processes has found by itself, and all go by as one. group null: there is one process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/group.h"
#include "weights/manifest.h"

namespace fathom::train {

// The processes of a run, which read a checkpoint together.
class RanksThatRead final : public weights::Readers {
 public:
  explicit RanksThatRead(dist::Group& group) : group_(group) {}
  int64_t rank() const override { return group_.rank(); }
  int64_t size() const override { return group_.size(); }
  std::vector<std::string> gather(const std::string& text) override {
    group_.meet_after_files();
    return group_.gather(text);
  }

 private:
  dist::Group& group_;
};

// The largest of all.
int largest_of_all(dist::Group* group, int number);
// As the first process finds it.
bool as_first_finds(dist::Group* group, bool found);

}  // namespace fathom::train
