#!/usr/bin/env python3
"""The graph of a PyTorch model as JSON, which `rehearse import` reads: operators, shapes and parameters, no weights.

    from torch_graph import write_graph
    write_graph(model, (torch.randn(2, 3, 224, 224),), "model.graph.json")

    python3 torch_graph.py torchvision.models.resnet50 --input 2,3,224,224 -o resnet50.graph.json

The model is traced by torch.fx, or exported by torch.export where that cannot follow it. Inputs have the batch first.
"""
import argparse
import importlib
import json


def traced(model, inputs):
    """A graph module whose nodes know their shapes."""
    import torch.fx
    from torch.fx.passes.shape_prop import ShapeProp
    try:
        graph = torch.fx.symbolic_trace(model)
        ShapeProp(graph).propagate(*inputs)
        return graph
    except Exception as reason:  # what tracing meets is up to the model
        if not hasattr(torch, "export"):
            raise RuntimeError("torch.fx cannot follow the model, and this PyTorch has no torch.export") from reason
        return torch.export.export(model, tuple(inputs)).module()


def meta_of(node):
    """Shape and type of what a node gives; of several tensors those of the first."""
    value = node.meta.get("tensor_meta", node.meta.get("val"))
    while isinstance(value, (list, tuple)) and not hasattr(value, "shape"):
        value = value[0] if value else None
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return {}
    return {"shape": [int(size) for size in value.shape], "dtype": str(value.dtype).replace("torch.", "")}


def attribute(model, path):
    for name in path.split("."):
        model = getattr(model, name)
    return model


def type_of(node, model):
    if node.op == "call_module":
        return type(attribute(model, node.target)).__name__
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def module_of(module, path, names):
    """What a module that is not looked into has: parameters by their names in the model, and its sizes."""
    found = {"parameters": [{"name": names.get(id(value), f"{path}.{name}"), "shape": list(value.shape)}
                            for name, value in module.named_parameters()]}
    for key, name in [("kernel_size", "kernel"), ("stride", "stride")]:
        size = getattr(module, key, None)
        if isinstance(size, (int, tuple)) and not isinstance(size, bool):
            found[name] = [size] if isinstance(size, int) else list(size)
    for key, name in [("groups", "groups"), ("hidden_size", "hidden"), ("num_layers", "layers"), ("bidirectional", "bidirectional"),
                      ("batch_first", "batch_first"),
                      ("num_heads", "heads")]:
        if isinstance(getattr(module, key, None), (int, bool)):
            found[name] = getattr(module, key)
    return found


def graph_of(model, inputs):
    import torch
    graph = traced(model, inputs)
    names = {id(value): name for name, value in graph.named_parameters()}  # tied ones have one name
    nodes = []
    for node in graph.graph.nodes:
        found = {"name": node.name, "op": node.op, "type": type_of(node, graph), "inputs": [each.name for each in node.all_input_nodes], **meta_of(node)}
        if node.op == "call_module":
            found.update(module_of(attribute(graph, node.target), node.target, names))
        elif node.op == "get_attr":
            value = attribute(graph, node.target)
            if isinstance(value, torch.Tensor):
                found.update(shape=list(value.shape), parameter=isinstance(value, torch.nn.Parameter), path=names.get(id(value), node.target))
        nodes.append(found)
    return {"torch_graph": 1, "model": type(model).__name__, "torch": torch.__version__, "nodes": nodes}


def write_graph(model, inputs, path):
    graph = graph_of(model, inputs)
    with open(path, "w") as file:
        json.dump(graph, file)


def main():
    import torch
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="class or function that makes the model, such as torchvision.models.resnet50")
    parser.add_argument("--input", action="append", required=True, metavar="SIZES", help="of an input; int:2,128 for identifiers; repeatable")
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()
    module, _, name = arguments.model.rpartition(".")
    inputs = []
    for text in arguments.input:
        sizes = [int(size) for size in text.replace("int:", "").split(",")]
        inputs.append(torch.zeros(sizes, dtype=torch.long) if text.startswith("int:") else torch.randn(sizes))
    write_graph(getattr(importlib.import_module(module), name)(), inputs, arguments.output)


if __name__ == "__main__":
    main()
