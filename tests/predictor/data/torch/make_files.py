#!/usr/bin/python3
"""Writes the files of tests/fuzz/corpus/torch_file that torch_file_test.cpp reads, with Python's torch (1.13).

make_files.py FOLDER
"""
import collections
import io
import sys
import zipfile

import torch

folder = sys.argv[1]


def moved_to_cuda(content):
    """The same archive, its storages tagged as saved from cuda:0."""
    moved = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(moved, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            record = old.read(name)
            if name.endswith("data.pkl"):
                record = record.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
            new.writestr(zipfile.ZipInfo(name), record)
    return moved.getvalue()


def saved(value, is_zip=True):
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=is_zip)
    return buffer.getvalue()


def write(name, content):
    with open(f"{folder}/{name}", "wb") as file:
        file.write(content)


torch.manual_seed(1)
linear = torch.nn.Linear(2, 3)
with torch.no_grad():
    linear.weight.copy_(torch.arange(6.0).view(3, 2) / 4)
    linear.bias.copy_(torch.tensor([1.0, -1.0, 0.5]))
grid = torch.arange(12.0).view(3, 4)
values = {
    "types": [torch.tensor([1, -2, 3]).to(dtype) for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64,
                                                              torch.int32, torch.int16, torch.int8)]
             + [torch.tensor([1, 254, 3], dtype=torch.uint8), torch.tensor([True, False, True])],
    "views": (grid, grid.t(), grid[1:, ::2], grid[2, 3], torch.empty(0, 4), torch.ones(1).expand(2, 3)),
    "plain": [None, True, False, 7, -300, 2**31, -2**40, 0.25, "grüße", (), [], {}, (1,), ((1, 2), [3])],
    "shape": grid.shape,
    "halves": torch.tensor([65504.0, 6e-8, float("inf"), -0.5], dtype=torch.float16),
}
write("state_dict_cuda", moved_to_cuda(saved(linear.state_dict())))
write("state_dict_legacy", saved(linear.state_dict(), False))
write("values", saved(values))
write("values_legacy", saved(values, False))
write("parameters", saved(collections.OrderedDict(w=linear.weight, b=linear.bias)))
write("module", saved(linear))
write("module_legacy", saved(linear, False))
