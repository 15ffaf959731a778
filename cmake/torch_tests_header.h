// What the tests of rooms on LibTorch include most, compiled once.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "torch_header.h"
