"""CUDA graphs: make_graphed_callables on a part of the model, and a graph of a whole inference."""
import torch
from torch import nn

body = nn.Sequential(*(nn.Sequential(nn.LayerNorm(1024), nn.Linear(1024, 1024), nn.GELU()) for _ in range(8))).cuda()
head = nn.Linear(1024, 100).cuda()
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
graphed = torch.cuda.make_graphed_callables(body, (torch.randn(512, 1024, device="cuda", requires_grad=True),))
for step in range(3):
    x = torch.randn(512, 1024, device="cuda", requires_grad=True)
    y = torch.randint(0, 100, (512,), device="cuda")
    loss = nn.functional.cross_entropy(head(graphed(x)), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step}: {loss.item():.3f}")

body.eval()  # without the graphs of training
static, graph = torch.randn(64, 1024, device="cuda"), torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):
    answer = head(body(static))
static.copy_(torch.randn(64, 1024))
graph.replay()
print(answer.argmax(-1).tolist()[:4], torch.cuda.max_memory_reserved())
