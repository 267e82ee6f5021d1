"""The operators of a network's forward pass, from torch.fx, as a StepGraph."""
import operator

import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from graph_def import StepGraph

ACTIVATIONS = {nn.ReLU: "Relu", nn.ReLU6: "Relu6", nn.Tanh: "Tanh", nn.Sigmoid: "Sigmoid", torch.tanh: "Tanh",
               torch.sigmoid: "Sigmoid"}
VIEWS = {torch.flatten, torch.chunk, operator.getitem, "reshape", "view"}


def shape_of(node):
    meta = node.meta["tensor_meta"]
    return list(meta.shape) if hasattr(meta, "shape") else list(meta[0].shape)


def trace(spec, model, samples):
    """StepGraph of `model` on a batch of samples, with the loss; ValueError for an operator that it does not know."""
    traced = fx.symbolic_trace(model)
    ShapeProp(traced).propagate(samples)
    return Tracer(traced, spec).run()


class Tracer:
    def __init__(self, traced, spec):
        self.traced, self.spec = traced, spec
        self.modules = dict(traced.named_modules())
        self.graph = StepGraph()
        self.names = {}  # fx node -> operator

    def run(self):
        for node in self.traced.graph.nodes:
            if node.op == "placeholder":
                kind = "DT_INT64" if self.spec.sequence else "DT_FLOAT"
                self.names[node] = self.graph.add_input(node.name, shape_of(node), kind)
            elif node.op == "call_module":
                self.names[node] = self.module(node, self.modules[node.target])
            elif node.op in ("call_function", "call_method"):
                self.names[node] = self.function(node)
            elif node.op == "output":
                self.loss(node.args[0])
        return self.graph

    def loss(self, logits):
        shape = shape_of(logits)
        rows = self.numel(shape[:-1])
        flat = self.flat("loss", self.names[logits], [rows, shape[-1]])
        labels = self.graph.add_input("labels", [rows], "DT_INT64")
        self.graph.add("loss", "SparseSoftmaxCrossEntropyWithLogits", [flat, labels], [rows])

    @staticmethod
    def numel(shape):
        product = 1
        for size in shape:
            product *= size
        return product

    def flat(self, name, tensor, shape):
        return self.graph.add(f"{name}/flat", "Reshape", [tensor], shape)

    def bias(self, name, tensor, shape, layer):
        if layer.bias is None:
            return tensor
        variable = self.graph.add_variable(f"{name}/bias", list(layer.bias.shape))
        return self.graph.add(f"{name}/BiasAdd", "BiasAdd", [tensor], shape, [variable], data_format="NCHW")

    def module(self, node, layer):
        name, shape, x = node.name, shape_of(node), self.names[node.args[0]]
        add = self.graph.add
        if isinstance(layer, nn.Conv2d):
            out, inputs, height, width = layer.weight.shape
            is_depthwise = layer.groups == layer.in_channels and layer.groups > 1
            if layer.groups > 1 and not is_depthwise:
                raise ValueError(f"{name}: grouped convolutions are not known")
            filters = [height, width, out, 1] if is_depthwise else [height, width, inputs, out]
            variable = self.graph.add_variable(f"{name}/weights", filters)
            y = add(name, "DepthwiseConv2dNative" if is_depthwise else "Conv2D", [x], shape, [variable],
                    strides=[1, 1, *layer.stride], padding="SAME", data_format="NCHW")
            return self.bias(name, y, shape, layer)
        if isinstance(layer, nn.Linear):
            rows = self.numel(shape[:-1])
            variable = self.graph.add_variable(f"{name}/weights", [layer.in_features, layer.out_features])
            if len(shape) != 2:
                x = self.flat(name, x, [rows, layer.in_features])
            y = add(name, "MatMul", [x], [rows, layer.out_features], [variable])
            y = self.bias(name, y, [rows, layer.out_features], layer)
            return y if len(shape) == 2 else add(f"{name}/unflat", "Reshape", [y], shape)
        if isinstance(layer, (nn.BatchNorm2d, nn.LayerNorm)):
            op = "FusedBatchNorm" if isinstance(layer, nn.BatchNorm2d) else "SquaredDifference"
            variables = [self.graph.add_variable(f"{name}/{v}", list(layer.weight.shape)) for v in ("scale", "offset")]
            return add(name, op, [x], shape, variables, data_format="NCHW")
        if isinstance(layer, nn.Embedding):
            table = self.graph.add_variable(f"{name}/table", list(layer.weight.shape))
            return add(name, "Gather", [x], shape, [table])
        if isinstance(layer, (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)):
            return add(name, "MaxPool" if isinstance(layer, nn.MaxPool2d) else "AvgPool", [x], shape)
        if isinstance(layer, nn.Flatten):
            return add(name, "Reshape", [x], shape)
        if isinstance(layer, nn.Softmax):
            return add(name, "Softmax", [x], shape)
        if type(layer) in ACTIVATIONS:
            return add(name, ACTIVATIONS[type(layer)], [x], shape)
        raise ValueError(f"{name}: {type(layer).__name__} is not known")

    def function(self, node):
        name, shape, target = node.name, shape_of(node), node.target
        inputs = [self.names[n] for n in node.all_input_nodes]
        add = self.graph.add
        if target in VIEWS:
            return add(name, "Reshape", inputs[:1], shape)
        if target == "transpose":
            return add(name, "Transpose", inputs, shape)
        if target in (operator.add, torch.add):
            return add(name, "Add", inputs, shape)
        if target in (operator.mul, torch.mul):
            return add(name, "Mul", inputs, shape)
        if target in (torch.cat, torch.stack):
            return add(name, "ConcatV2", inputs, shape)
        if target in (torch.matmul, torch.bmm):
            return add(name, "BatchMatMul", inputs, shape)
        if target in ACTIVATIONS:
            return add(name, ACTIVATIONS[target], inputs, shape)
        raise ValueError(f"{name}: {target} is not known")
