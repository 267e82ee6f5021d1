"""Families of networks of varied depth and width, in plain PyTorch: every kernel that runs is a line of forward()."""
import random

import torch
from torch import nn


def unit(inputs, outputs, kernel=3, stride=1, groups=1, activation=nn.ReLU):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, activation()) if activation else nn.Sequential(*layers)


class Residual(nn.Module):
    def __init__(self, inputs, width, stride, is_bottleneck):
        super().__init__()
        outputs = width * 4 if is_bottleneck else width
        if is_bottleneck:
            self.path = nn.Sequential(unit(inputs, width, 1), unit(width, width, 3, stride),
                                      unit(width, outputs, 1, activation=None))
        else:
            self.path = nn.Sequential(unit(inputs, width, 3, stride), unit(width, outputs, activation=None))
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = unit(inputs, outputs, 1, stride, activation=None)
        self.outputs = outputs
        self.last = nn.ReLU()

    def forward(self, x):
        y = self.path(x)
        return self.last(y + (x if self.shortcut is None else self.shortcut(x)))


class Head(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.pool, self.dense = nn.AdaptiveAvgPool2d(1), nn.Linear(inputs, classes)

    def forward(self, x):
        return self.dense(torch.flatten(self.pool(x), 1))


def resnet(blocks, width, is_bottleneck, classes):
    layers = [unit(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Residual(inputs, width << stage, 2 if stage > 0 and block == 0 else 1, is_bottleneck))
            inputs = layers[-1].outputs
    return nn.Sequential(*layers, Head(inputs, classes))


def vgg(blocks, width, features, size, classes):
    layers, inputs = [], 3
    for stage, count in enumerate(blocks):
        outputs = width * min(8, 1 << stage)
        for _ in range(count):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(inputs * (size >> len(blocks)) ** 2, features), nn.ReLU(),
               nn.Linear(features, features), nn.ReLU(), nn.Linear(features, classes)]
    return nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        hidden = inputs * expansion
        self.path = nn.Sequential(unit(inputs, hidden, 1, activation=nn.ReLU6),
                                  unit(hidden, hidden, 3, stride, hidden, nn.ReLU6),
                                  unit(hidden, outputs, 1, activation=None))
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.path(x) if self.is_residual else self.path(x)


def mobilenet(blocks, width, expansion, classes):
    layers, inputs = [unit(3, width, 3, 2, activation=nn.ReLU6)], width
    for stage, count in enumerate(blocks):
        outputs = width * (stage + 1)
        for block in range(count):
            layers.append(InvertedResidual(inputs, outputs, 2 if block == 0 and stage > 0 else 1, expansion))
            inputs = outputs
    return nn.Sequential(*layers, unit(inputs, 4 * inputs, 1, activation=nn.ReLU6), Head(4 * inputs, classes))


class DenseLayer(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.path = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False),
                                  nn.BatchNorm2d(4 * growth), nn.ReLU(),
                                  nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.path(x)], 1)


def densenet(blocks, growth, classes):
    layers, inputs = [unit(3, 2 * growth, 7, 2), nn.MaxPool2d(3, 2, 1)], 2 * growth
    for stage, count in enumerate(blocks):
        for _ in range(count):
            layers.append(DenseLayer(inputs, growth))
            inputs += growth
        if stage + 1 < len(blocks):
            layers += [unit(inputs, inputs // 2, 1), nn.AvgPool2d(2)]
            inputs //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(inputs), nn.ReLU(), Head(inputs, classes))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, sequence):
        super().__init__()
        self.width, self.heads, self.sequence = width, heads, sequence
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.grow, self.shrink, self.activation = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.ReLU()
        self.softmax = nn.Softmax(-1)

    def split(self, x):
        return x.reshape(-1, self.sequence, self.heads, self.width // self.heads).transpose(1, 2)

    def forward(self, x):
        y = self.norms[0](x)
        q, k, v = self.split(self.query(y)), self.split(self.key(y)), self.split(self.value(y))
        scores = self.softmax(torch.matmul(q, k.transpose(2, 3)) * (self.width // self.heads) ** -0.5)
        y = torch.matmul(scores, v).transpose(1, 2).reshape(-1, self.sequence, self.width)
        x = x + self.out(y)
        return x + self.shrink(self.activation(self.grow(self.norms[1](x))))


def transformer(layers, width, heads, sequence, vocabulary):
    return nn.Sequential(nn.Embedding(vocabulary, width),
                         *(TransformerBlock(width, heads, sequence) for _ in range(layers)), nn.LayerNorm(width),
                         nn.Linear(width, vocabulary))


class Recurrent(nn.Module):
    """LSTM, position by position. Source: Zaremba et al., arXiv 1409.2329, section 3.1."""

    def __init__(self, inputs, hidden, sequence):
        super().__init__()
        self.sequence, self.hidden = sequence, hidden
        self.gates = nn.Linear(inputs + hidden, 4 * hidden)
        self.first = nn.Linear(inputs, 2 * hidden)  # of the first position: state and memory

    def forward(self, x):
        first = torch.chunk(self.first(x[:, 0]), 2, 1)
        memory, state = first[0], first[1]
        states = []
        for t in range(self.sequence):
            gates = torch.chunk(self.gates(torch.cat([x[:, t], state], 1)), 4, 1)  # input, forget, output, new
            memory = torch.sigmoid(gates[1]) * memory + torch.sigmoid(gates[0]) * torch.tanh(gates[3])
            state = torch.sigmoid(gates[2]) * torch.tanh(memory)
            states.append(state)
        return torch.stack(states, 1)


def lstm(layers, hidden, sequence, vocabulary):
    return nn.Sequential(nn.Embedding(vocabulary, hidden), *(Recurrent(hidden, hidden, sequence) for _ in range(layers)),
                         nn.Linear(hidden, vocabulary))


class Spec:
    """A network and the samples that it takes: images [3, size, size] with one class, or tokens [sequence] with one
    for each position."""

    def __init__(self, family, name, build, size=0, sequence=0, classes=1000):
        self.family, self.name, self.build = family, name, build
        self.size, self.sequence, self.classes = size, sequence, classes

    def sample_shape(self, batch):
        return (batch, 3, self.size, self.size) if self.size else (batch, self.sequence)

    def make_batch(self, batch, device):
        if self.size:
            return (torch.randn(self.sample_shape(batch), device=device),
                    torch.randint(self.classes, (batch,), device=device))
        tokens = torch.randint(self.classes, (batch, self.sequence), device=device)
        return tokens, torch.randint(self.classes, (batch, self.sequence), device=device)


def draw(family, rng, is_tiny):
    """One network of a family. `is_tiny`: images of 32 pixels and few, narrow layers."""
    part = 8 if is_tiny else 1
    depth = lambda low, high: rng.randint(low, max(low, high // part))
    size = 32 if is_tiny else rng.choice([128, 160, 192, 224])
    classes = 10 if is_tiny else 1000
    if family == "resnet":
        blocks, width, deep = [depth(1, 6) for _ in range(4)], rng.choice([32, 48, 64, 96]) // part, rng.random() < 0.5
        name = f"{'bottleneck' if deep else 'basic'}-{'-'.join(map(str, blocks))}-w{width}-s{size}"
        return Spec(family, f"resnet-{name}", lambda: resnet(blocks, width, deep, classes), size, 0, classes)
    if family == "vgg":
        blocks, width = [depth(1, 4) for _ in range(5)], rng.choice([32, 48, 64]) // part
        features = rng.choice([1024, 2048, 4096]) // part
        return Spec(family, f"vgg-{'-'.join(map(str, blocks))}-w{width}-f{features}-s{size}",
                    lambda: vgg(blocks, width, features, size, classes), size, 0, classes)
    if family == "mobilenet":
        blocks, width, expansion = [depth(1, 4) for _ in range(5)], rng.choice([16, 24, 32]), rng.choice([3, 4, 6])
        return Spec(family, f"mobilenet-{'-'.join(map(str, blocks))}-w{width}-e{expansion}-s{size}",
                    lambda: mobilenet(blocks, width, expansion, classes), size, 0, classes)
    if family == "densenet":
        blocks, growth = [depth(2, 12) for _ in range(4)], rng.choice([16, 24, 32]) // (2 if is_tiny else 1)
        return Spec(family, f"densenet-{'-'.join(map(str, blocks))}-g{growth}-s{size}",
                    lambda: densenet(blocks, growth, classes), size, 0, classes)
    vocabulary = 100 if is_tiny else rng.choice([8000, 16000, 32000])
    if family == "transformer":
        layers, heads = depth(2, 12), max(2, rng.choice([4, 8, 12, 16]) // part)
        sequence = 16 if is_tiny else rng.choice([32, 64, 128, 256])
        width = heads * (16 if is_tiny else 64)
        return Spec(family, f"transformer-{layers}-h{heads}-t{sequence}-v{vocabulary}",
                    lambda: transformer(layers, width, heads, sequence, vocabulary), 0, sequence, vocabulary)
    if family == "lstm":
        layers, hidden = depth(1, 3), rng.choice([256, 512, 768, 1024]) // part
        sequence = 4 if is_tiny else rng.randint(10, 40)
        return Spec(family, f"lstm-{layers}-w{hidden}-t{sequence}-v{vocabulary}",
                    lambda: lstm(layers, hidden, sequence, vocabulary), 0, sequence, vocabulary)
    raise ValueError(f"unknown family {family}")


FAMILIES = ("resnet", "vgg", "mobilenet", "densenet", "transformer", "lstm")


def draw_networks(count, families, seed, is_tiny=False):
    """`count` different networks, or as many as there are; the families in turn."""
    rng, specs, names = random.Random(seed), [], set()
    for attempt in range(1000 * count):
        if len(specs) == count:
            break
        spec = draw(families[attempt % len(families)], rng, is_tiny)
        if spec.name not in names:
            names.add(spec.name)
            specs.append(spec)
    return specs
