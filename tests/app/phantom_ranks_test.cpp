// `fathom phantom` on scripts that run in several processes, or on several GPUs.
#include <algorithm>

#include "base/json_value.h"
#include "tests/app/phantom_script.h"

namespace fathom::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kTwo = "-m torch.distributed.run --standalone --nproc-per-node 2";

// Of two ranks, each on its GPU.
constexpr const char* kBegin = R"(
import os, torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
)";

class PhantomRanks : public PhantomScript {};

// The CPU's own exchange says what is right.
TEST_F(PhantomRanks, ExchangeNumbersOfAllTypes) {
  const Json answer = told(std::string(kBegin) + R"(
gloo = dist.new_group(backend="gloo")
operations = dist.ReduceOp
for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
              torch.float64):
    mine = (torch.arange(1, 700) % 5 + rank).to(dtype)
    both = [torch.empty_like(mine) for _ in range(2)]
    dist.all_gather(both, mine, group=gloo)
    a, b = both
    for operation, expected in ((operations.SUM, a + b), (operations.PRODUCT, a * b), (operations.MAX, a.maximum(b)),
                                (operations.MIN, a.minimum(b)), (operations.AVG, ((a + b) / 2).to(dtype))):
        there = mine.cuda()
        dist.all_reduce(there, operation)
        assert there.cpu().equal(expected), (dtype, operation)
    gathered = [torch.empty_like(mine, device="cuda") for _ in range(2)]
    dist.all_gather(gathered, mine.cuda())
    assert all(x.cpu().equal(y) for x, y in zip(gathered, both))
    part = torch.empty(349, dtype=dtype, device="cuda")
    dist.reduce_scatter_tensor(part, mine[:698].cuda())
    assert part.cpu().equal((a + b)[:698][349 * rank:349 * rank + 349])
    swapped = torch.empty(698, dtype=dtype, device="cuda")
    dist.all_to_all_single(swapped, mine[:698].cuda())
    assert swapped.cpu().equal(torch.cat([x[349 * rank:349 * rank + 349] for x in both]))
    dist.broadcast(there, 1)
    dist.reduce(there, 0)
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    numbers = torch.tensor([0.0, 0.5, -1.25, 448.0, 2.0 ** -9]).to(dtype)
    there = numbers.cuda().view(torch.uint8)
    dist.broadcast(there, 0)
    assert there.cpu().equal(numbers.view(torch.uint8))

there, other = torch.tensor([3.0], device="cuda"), torch.tensor([5.0], device="cuda")
with dist._coalescing_manager(device=torch.device("cuda", rank)):
    dist.all_reduce(there, dist._make_nccl_premul_sum(1.0 + rank))
    dist.all_reduce(other, dist._make_nccl_premul_sum(2.0))
assert there.item() == 9.0, "each rank's own factor"
dist.all_reduce(other, dist._make_nccl_premul_sum(0.5))

try:
    import numpy  # through which PyTorch reads objects
except ImportError:
    numpy = None
if numpy is not None:
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank, "bytes": b"x" * (3_000_000 + rank)})
    assert [len(each["bytes"]) - 3_000_000 for each in objects] == [0, 1]
    told = [{"rank": rank}]
    dist.broadcast_object_list(told, src=1)
    assert told == [{"rank": 1}]

sent, received = torch.tensor([rank], device="cuda"), torch.tensor([-1], device="cuda")
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]):
    work.wait()
assert received.item() == 1 - rank
if rank == 0:
    dist.send(torch.arange(300_000, device="cuda"), 1)
else:
    dist.recv(torch.empty(300_000, dtype=torch.long, device="cuda"), 0)
alone = [dist.new_group([each]) for each in range(2)][rank]
dist.all_reduce(sent, group=alone)
assert sent.item() == rank
dist.barrier()
dist.destroy_process_group()
)",
                           "--gpus 2", kTwo);
  ASSERT_EQ(answer.at("processes").size(), 2U);
  for (const Json& process : answer.at("processes")) EXPECT_TRUE(process.at("reads").empty()) << process.at("reads");
}

TEST_F(PhantomRanks, DoNotTakeWhatAnotherDoesNotKnow) {
  const Json answer = told(std::string(kBegin) + R"(
number = torch.ones(1, device="cuda")
if rank == 1:
    number = torch.randn(1, device="cuda")
dist.all_reduce(number)
number.item()
)",
                           "--gpus 2", kTwo);
  for (const Json& process : answer.at("processes")) {
    ASSERT_EQ(process.at("reads").size(), 1U) << process.at("rank");
    EXPECT_EQ(process.at("reads").at(0).at("place"), "train.py:12");
  }
}

// Four matrices of 4 MiB.
constexpr const char* kRanksModel = R"(
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, bias=False) for _ in range(4))).cuda()
)";
constexpr const char* kSteps = R"(
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    model(torch.randn(8, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    if step < 2:
        optimizer.zero_grad()
)";
constexpr int64_t kWeights = 4 * int64_t{4 << 20};

int64_t at_end(const Json& process) { return process.at("allocated_at_end").get<int64_t>(); }

// Beside weights, gradients and AdamW's two states there are cuBLAS's workspaces, of PyTorch's size, for the thread
// that goes forward and the one that goes backward.
constexpr int64_t kWorkspaces = 2 * int64_t{8'519'680};

TEST_F(PhantomRanks, TakeWhatTheoryHasForDdp) {
  const Json answer = told(std::string(kBegin) + kRanksModel + R"(
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank], broadcast_buffers=False)
)" + kSteps,
                           "--gpus 2", kTwo);
  ASSERT_EQ(answer.at("processes").size(), 2U);
  for (const Json& process : answer.at("processes")) {
    EXPECT_EQ(at_end(process), 5 * kWeights + kWorkspaces)
        << "weights, gradients, two states, and the gradients' buckets";
    EXPECT_EQ(process.at("steps"), 3);
    EXPECT_EQ(process.at("device"), process.at("rank"));
  }
}

TEST_F(PhantomRanks, TakeWhatTheoryHasForFsdp) {
  for (const char* wrap : {R"(
from torch.distributed.fsdp import fully_shard
for layer in model:
    fully_shard(layer)
fully_shard(model)
)",
                           R"(
from torch.distributed.fsdp import FullyShardedDataParallel, wrap
model = FullyShardedDataParallel(model, device_id=rank, auto_wrap_policy=wrap.ModuleWrapPolicy({torch.nn.Linear}))
)"}) {
    const Json answer = told(std::string(kBegin) + kRanksModel + wrap + kSteps, "--gpus 2 --steps 3", kTwo);
    ASSERT_EQ(answer.at("processes").size(), 2U);
    EXPECT_EQ(answer.at("exit_status"), 0);
    for (const Json& process : answer.at("processes")) {
      EXPECT_EQ(at_end(process), 4 * kWeights / 2 + kWorkspaces) << "half of weights, gradients and two states";
      EXPECT_TRUE(process.at("reads").empty()) << process.at("reads");
    }
  }
}

TEST_F(PhantomRanks, EndAtTheirOwnSteps) {
  const Json answer = told(std::string(kBegin) + kRanksModel + R"(
optimizer = torch.optim.SGD(model.parameters())
for step in range(9):
    total = torch.ones(1, device="cuda")
    dist.all_reduce(total)
    if rank == 0 or step % 2:
        optimizer.step()
)",
                           "--gpus 2 --steps 2", kTwo);
  for (const Json& process : answer.at("processes")) EXPECT_EQ(process.at("steps"), 2);
}

TEST_F(PhantomRanks, MakeNoGroupWithOneThatHasEnded) {
  const Outcome outcome = play(R"(
import os, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
if rank == 0:
    torch.optim.SGD([torch.ones(1, requires_grad=True)]).step()
dist.new_group([0, 1])
)",
                               "--gpu A100-80GB --gpus 2 --steps 1", kTwo);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("rank 1 asks of all what rank 0 has ended before, after the steps asked for"));
}

TEST_F(PhantomRanks, DoNotWaitForOneThatNeverCame) {
  const Outcome outcome = play(std::string(kBegin) + R"(
number = torch.ones(1, device="cuda")
if rank == 1:
    raise SystemExit(3)
dist.all_reduce(number)
)",
                               "--gpu A100-80GB --gpus 2 --json", kTwo);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("rank 0 waits in ncclCommInitRank for rank 1, and is to end"));
  const Json answer = parse_json(outcome.output, "the answer");
  EXPECT_EQ(answer.at("processes").size(), 2U) << "torchrun kills after 30 seconds what does not end, untold";
}

TEST_F(PhantomRanks, AreKnownHoweverTheyAreStarted) {
  const Json answer = told(R"(
import os, torch.distributed as dist, torch.multiprocessing as mp
def main(rank):
    torch.cuda.set_device(rank)
    numbers = torch.ones((rank + 1) << 20, device="cuda")
    dist.init_process_group("nccl", init_method=f"file://{os.getcwd()}/meeting", rank=rank, world_size=2)
    dist.all_reduce(numbers[:1])
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
)",
                           "--gpus 2");
  ASSERT_EQ(answer.at("processes").size(), 2U);
  for (const Json& process : answer.at("processes")) {
    EXPECT_EQ(process.at("rank"), process.at("device"));
    EXPECT_EQ(process.at("allocated"), (process.at("rank").get<int64_t>() + 1) << 22);
  }
}

TEST_F(PhantomRanks, NameThePeerThatDied) {
  const Outcome outcome = play(std::string(kBegin) + R"(
number = torch.ones(1, device="cuda")
dist.all_reduce(number)
if rank == 1:
    os.kill(os.getpid(), 9)
dist.all_reduce(number)
)",
                               "--gpu A100-80GB --gpus 2", kTwo);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("rank 0 waits in ncclAllReduce for rank 1, whose process has ended"));
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 was killed, or crashed, before it could tell what it took"));
}

TEST_F(PhantomRanks, TellWhatTheyTookWhenTheirParentEndsThem) {
  const Json answer = told(R"(
import multiprocessing, time
def train(rank, ready):
    numbers = torch.ones(1 << 20, device="cuda")
    ready.set()
    time.sleep(60)
if __name__ == "__main__":
    for start in ("spawn", "fork"):
        context = multiprocessing.get_context(start)
        ready = context.Event()
        child = context.Process(target=train, args=(0, ready))
        child.start()
        ready.wait()
        child.terminate()
        child.join()
        assert child.exitcode == -15
)");
  EXPECT_EQ(answer.at("processes").size(), 2U);
}

TEST_F(PhantomRanks, AreToldOneByOne) {
  const Outcome outcome = play(std::string(kBegin) + R"(
torch.empty((rank + 1) << 25, device="cuda")
dist.barrier()
)",
                               "--gpu A100-80GB --gpus 2", kTwo);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("Rank 0, GPU 0"), HasSubstr("Rank 1, GPU 1:"),
                                    HasSubstr("Fits: 2 × A100-80GB"), HasSubstr("of which at most")))
      << outcome.errors;
}

TEST_F(PhantomRanks, WantAGpuEach) {
  EXPECT_THAT(play("", "--gpu A100-80GB", kTwo).errors, HasSubstr("in 2 processes, and 1 GPU is pretended"));
}

TEST_F(PhantomRanks, MayBeOneProcessOnSeveralGpus) {
  const Json answer = told(R"(
assert torch.cuda.device_count() == 3 and torch.cuda.can_device_access_peer(0, 1)
first, second = torch.ones(1 << 18, device="cuda:0"), torch.arange(1 << 10, device="cuda:1")
assert second.to("cuda:0").tolist() == list(range(1 << 10))
torch.empty(60 << 30, dtype=torch.uint8, device="cuda:0"), torch.empty(70 << 30, dtype=torch.uint8, device="cuda:1")
assert torch.cuda.mem_get_info(2)[0] == torch.cuda.get_device_properties(2).total_memory
model = torch.nn.DataParallel(torch.nn.Linear(64, 64).cuda())
model(torch.ones(6, 64, device="cuda")).sum().backward()
torch.randn(1, device="cuda:1").item()
)",
                           "--gpus 3");
  ASSERT_EQ(answer.at("processes").size(), 3U);
  EXPECT_EQ(answer.at("processes").at(0).at("reads").size(), 1U);
  EXPECT_TRUE(answer.at("processes").at(1).at("reads").empty()) << "they are told once";
  EXPECT_GE(answer.at("processes").at(1).at("allocated"), int64_t{70} << 30);
  EXPECT_LE(answer.at("processes").at(2).at("allocated"), int64_t{1} << 30);
}

}  // namespace
}  // namespace fathom::app
