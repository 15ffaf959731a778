// What the tests of rooms without LibTorch include most, compiled once.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plain_header.h"
