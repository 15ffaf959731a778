// What the rooms on LibTorch include most, compiled once. Left out are headers that leave templates to be instantiated
// at the end of every file that takes this one: JSON, torch/library.h and custom_function.h, two seconds together.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
