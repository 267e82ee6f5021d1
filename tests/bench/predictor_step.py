#!/usr/bin/python3
"""Time of a training step of the published networks in PyTorch, operation by operation as published.

predictor_step.py [NETWORK [ITERATIONS [GRAPHS [STEPS [DENORMALS]]]]]   prints as predictor_step does (same batch, other start
weights). DENORMALS: kept, as published, or flushed.

Written from the description of the operations (predictor/gnn/published_network.hpp and Yang et al. 2022): adjacency matrices are dense,
GCN adds the identity and multiplies with D^-1/2 in every convolution, GAT and MPNN form all pairs of nodes for every head and tower.
"""
import math
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F

NODES, FEATURES, HIDDEN, OUTPUTS, PARTS = 100, 3, 64, 12, 4


def synthetic_batch(graphs):
    adjacency = torch.zeros(graphs, NODES, NODES)
    for g in range(graphs):
        for i in range(NODES):
            for j in (i + 1, i + 7, i + 31 if (i + g) % 3 else NODES):
                if j < NODES:
                    adjacency[g, i, j] = adjacency[g, j, i] = 1.0
    features = torch.tensor([[[abs(math.sin(0.37 * i + 1.3 * f + 0.11 * g)) for f in range(FEATURES)] for i in range(NODES)]
                             for g in range(graphs)])
    labels = torch.tensor([[abs(math.sin(0.5 * k + 0.21 * g)) for k in range(OUTPUTS)] for g in range(graphs)])
    return adjacency, features, labels


def linear(size, out):
    """Start weights as published; some are so small that denormal numbers appear, which take time."""
    layer = nn.Linear(size, out)
    nn.init.xavier_uniform_(layer.weight, 1 / size)
    nn.init.zeros_(layer.bias)
    return layer


class GcnLayer(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, out).uniform_(-1 / math.sqrt(out), 1 / math.sqrt(out)))
        self.bias = nn.Parameter(torch.empty(out).uniform_(-1 / math.sqrt(out), 1 / math.sqrt(out)))

    def forward(self, x, adjacency):
        identity = torch.eye(adjacency.shape[1]).unsqueeze(0)
        with_self = adjacency + identity
        root = with_self.sum(-1, keepdim=True).pow(-0.5) * identity
        normalised = torch.matmul(torch.matmul(root, with_self), root)
        return F.leaky_relu(torch.bmm(normalised, torch.matmul(x, self.weight)) + self.bias)


class GinLayer(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.epsilon = nn.Parameter(torch.tensor([0.1]))
        self.first, self.second = linear(size, max(size, out)), linear(max(size, out), out)

    def forward(self, x, adjacency):
        identity = torch.eye(adjacency.shape[1]).unsqueeze(0)
        y = torch.matmul(adjacency + identity * (1.0 + self.epsilon), x)
        return F.relu(self.second(F.relu(self.first(y))))


class GatHead(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(size, out), 0.1414))
        self.a = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * out, 1), 0.1414))

    def forward(self, x, adjacency):
        h = torch.matmul(x, self.weight)
        graphs, nodes, width = h.shape
        pairs = torch.cat([h.repeat(1, 1, nodes).view(graphs, nodes * nodes, width), h.repeat(1, nodes, 1)], dim=1)
        scores = F.leaky_relu(torch.matmul(pairs.view(graphs, nodes, nodes, 2 * width), self.a).squeeze(3), 0.2)
        masked = torch.where(adjacency > 0, scores, -9e15 * torch.ones_like(scores))
        return F.elu(torch.matmul(F.softmax(masked, dim=1), h))


class GatLayer(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.heads = nn.ModuleList(GatHead(size, out // PARTS) for _ in range(PARTS))

    def forward(self, x, adjacency):
        return torch.cat([head(x, adjacency) for head in self.heads], dim=2)


class MpnnTower(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.before, self.after = linear(2 * size, size), linear(2 * size, out)

    def forward(self, x, adjacency):
        nodes = x.shape[1]
        pairs = torch.cat([x.unsqueeze(2).repeat(1, 1, nodes, 1), x.unsqueeze(1).repeat(1, nodes, 1, 1)], dim=3)
        messages = torch.sum(torch.mul(self.before(pairs), adjacency.unsqueeze(3)), dim=2)
        return self.after(torch.cat([x, messages], dim=2))


class MpnnLayer(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.width = out // PARTS if size == out else None
        self.towers = nn.ModuleList(MpnnTower(self.width or size, out // PARTS) for _ in range(PARTS))
        self.mix = linear(out, out)

    def forward(self, x, adjacency):
        parts = [x] * PARTS if self.width is None else x.split(self.width, dim=2)
        return F.leaky_relu(self.mix(torch.cat([tower(part, adjacency) for tower, part in zip(self.towers, parts)], dim=2)))


class Network(nn.Module):
    def __init__(self, layer, iterations):
        super().__init__()
        self.convolutions = nn.ModuleList([layer(FEATURES, HIDDEN), layer(HIDDEN, HIDDEN)])
        self.iterations = iterations
        self.gru, self.lstm = nn.GRU(HIDDEN, HIDDEN), nn.LSTM(2 * HIDDEN, HIDDEN, batch_first=True)
        self.mlp = nn.ModuleList([linear(2 * HIDDEN, HIDDEN), linear(HIDDEN, HIDDEN), linear(HIDDEN, OUTPUTS)])

    def forward(self, adjacency, x):
        graphs, nodes, _ = x.shape
        for t in range(self.iterations):
            y = self.convolutions[min(t, 1)](x, adjacency)
            x = F.pad(x, (0, HIDDEN - x.shape[2])).reshape(1, graphs * nodes, HIDDEN)
            x = self.gru(x, y.reshape(1, graphs * nodes, HIDDEN))[1].reshape(graphs, nodes, HIDDEN)
        star, state = torch.zeros(graphs, 1, 2 * HIDDEN), (torch.zeros(1, graphs, HIDDEN), torch.zeros(1, graphs, HIDDEN))
        for _ in range(nodes):
            query, state = self.lstm(star, state)
            shares = F.softmax(torch.matmul(x, query.transpose(1, 2)), dim=1)
            star = torch.cat([query, torch.sum(shares * x, dim=1, keepdim=True)], dim=2)
        value = star.squeeze(1)
        for layer in self.mlp[:-1]:
            value = F.relu(layer(value))
        return F.leaky_relu(self.mlp[-1](value))


def main():
    given = sys.argv[1:]
    name, rule, graphs, steps, denormals = given + ["gcn", "Nover2", "32", "5", "kept"][len(given):]
    torch.set_num_threads(1)
    torch.set_flush_denormal(denormals == "flushed")
    torch.manual_seed(1)
    iterations = {"Nover2": NODES // 2, "log2N": int(math.log2(NODES))}.get(rule) or int(rule)
    network = Network({"gcn": GcnLayer, "gin": GinLayer, "gat": GatLayer, "mpnn": MpnnLayer}[name], iterations)
    adam = torch.optim.Adam(network.parameters(), lr=0.003, weight_decay=1e-6)
    adjacency, features, labels = synthetic_batch(int(graphs))
    times = []
    for step in range(int(steps) + 1):
        start = time.process_time()
        adam.zero_grad()
        loss = F.mse_loss(network(adjacency, features), labels)
        loss.backward()
        adam.step()
        if step:
            times.append(1e3 * (time.process_time() - start))
    print(f"{name} {rule} {graphs} {sorted(times)[len(times) // 2]:.1f} {loss.item():.5f}")


main()
