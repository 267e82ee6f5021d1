"""The operators of a training step as TensorFlow's GraphDef, as text: what `rehearse import` and Driple's builder read.

A step is described by its forward operators; StepGraph adds the backward operators, in the order in which automatic
differentiation runs them, and the optimizer's update of every variable. Sizes are for the whole batch.
"""
from dataclasses import dataclass, field

SLOTS = {"sgd": 0, "momentum": 1, "adam": 2}  # values that the optimizer keeps for each trained scalar
UPDATES = {"sgd": "ApplyGradientDescent", "momentum": "ApplyMomentum", "adam": "ApplyAdam"}
DEVICE = "/device:GPU:0"
POOLS = ("MaxPool", "AvgPool")
ACTIVATIONS = ("Relu", "Relu6", "Elu", "Tanh", "Sigmoid")
CONVOLUTIONS = {"Conv2D": ("Conv2DBackpropInput", "Conv2DBackpropFilter"),
                "DepthwiseConv2dNative": ("DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter")}


@dataclass
class Operator:
    name: str
    op: str  # TensorFlow's name
    inputs: list  # names of operators before it
    shape: list
    variables: list = field(default_factory=list)  # names
    attributes: dict = field(default_factory=dict)  # "strides": [1, 1, 2, 2], "padding": "SAME", "transpose_b": True


class StepGraph:
    """Forward operators are added in the order in which they run; each name is there once."""

    def __init__(self):
        self.forward = []
        self.shapes = {}
        self.variables = {}  # name -> shape, in creation order
        self.inputs = {}  # name -> type

    def add_input(self, name, shape, type_name="DT_FLOAT"):
        self.inputs[name] = type_name
        self.shapes[name] = list(shape)
        return name

    def add_variable(self, name, shape):
        self.variables[name] = self.shapes[name] = list(shape)
        return name

    def add(self, name, op, inputs, shape, variables=(), **attributes):
        if name in self.shapes:
            raise ValueError(f"{name} is there twice")
        for read in [*inputs, *variables]:
            if read not in self.shapes:
                raise ValueError(f"{name} reads {read}, which is not there")
        self.forward.append(Operator(name, op, list(inputs), list(shape), list(variables), attributes))
        self.shapes[name] = list(shape)
        return name

    def to_text(self, optimizer):
        """GraphDef of a step. The last forward operator is the loss."""
        return _Writer(self).write(optimizer)


class _Writer:
    def __init__(self, graph):
        self.graph = graph
        self.nodes = []
        self.sums = {}  # name -> gradients with regard to it

    def write(self, optimizer):
        graph = self.graph
        for name, type_name in graph.inputs.items():
            self.node(name, "Placeholder", [], graph.shapes[name], device="", dtype=type_name)
        for name, shape in graph.variables.items():
            self.node(name, "VariableV2", [], shape, dtype="DT_FLOAT")
        for o in graph.forward:
            self.node(o.name, o.op, o.inputs + o.variables, o.shape, **o.attributes)
        self.sums[graph.forward[-1].name] = [graph.forward[-1].name]
        for o in reversed(graph.forward):
            if o.name in self.sums:
                self.backward(o, self.sum_of(o.name))
        self.update(optimizer)
        return "".join(self.nodes)

    def sum_of(self, name):
        parts = self.sums[name]
        if len(parts) == 1:
            return parts[0]
        return self.node(f"gradients/{name}/sum", "AddN", parts, self.graph.shapes[name])

    def gradient(self, of, name, op, inputs, **attributes):
        """Of the step's loss with regard to `of`; samples need none."""
        if of in self.graph.inputs:
            return
        self.sums.setdefault(of, []).append(
            self.node(f"gradients/{name}", op, inputs, self.graph.shapes[of], **attributes))

    def backward(self, o, dy):
        first = o.inputs[0]
        if o.op in CONVOLUTIONS:
            of_data, of_weights = CONVOLUTIONS[o.op]
            self.gradient(first, o.name + "/data", of_data, [first, o.variables[0], dy], **o.attributes)
            self.gradient(o.variables[0], o.name + "/weights", of_weights, [first, o.variables[0], dy], **o.attributes)
        elif o.op == "MatMul":
            self.gradient(first, o.name + "/data", "MatMul", [dy, o.variables[0]], transpose_b=True)
            self.gradient(o.variables[0], o.name + "/weights", "MatMul", [first, dy], transpose_a=True)
        elif o.op == "BatchMatMul":
            a, b = o.inputs
            self.gradient(a, o.name + "/a", "BatchMatMul", [dy, b], adj_y=True)
            self.gradient(b, o.name + "/b", "BatchMatMul", [a, dy], adj_x=True)
        elif o.op == "BiasAdd":
            self.sums.setdefault(first, []).append(dy)  # the same values
            self.gradient(o.variables[0], o.name + "/bias", "BiasAddGrad", [dy])
        elif o.op in ("FusedBatchNorm", "SquaredDifference"):  # the latter: layer normalisation
            op = o.op + "Grad" if o.op == "FusedBatchNorm" else "RsqrtGrad"
            grad = self.node(f"gradients/{o.name}", op, [dy, first, *o.variables], self.graph.shapes[first])
            if first not in self.graph.inputs:
                self.sums.setdefault(first, []).append(grad)
            for i, variable in enumerate(o.variables):  # further outputs of the same kernel
                self.sums.setdefault(variable, []).append(f"{grad}:{i + 1}")
        elif o.op in ACTIVATIONS:
            self.gradient(first, o.name, o.op + "Grad", [dy, o.name])
        elif o.op in POOLS:
            self.gradient(first, o.name, o.op + "Grad", [first, o.name, dy])
        elif o.op == "Gather":
            self.gradient(o.variables[0], o.name, "UnsortedSegmentSum", [dy, first])
        elif o.op in ("Reshape", "Transpose"):
            self.gradient(first, o.name, o.op, [dy])
        elif o.op == "Mul":
            for i, of in enumerate(o.inputs):
                self.gradient(of, f"{o.name}/{i}", "Mul", [dy, o.inputs[1 - i] if len(o.inputs) == 2 else o.name])
        elif o.op == "ConcatV2":
            for i, of in enumerate(o.inputs):
                self.gradient(of, f"{o.name}/{i}", "Slice", [dy])
        elif o.op == "Add":
            for of in o.inputs:
                if of not in self.graph.inputs:
                    self.sums.setdefault(of, []).append(dy)
        else:  # softmax, the loss, the mean over positions
            self.gradient(first, o.name, "Mul", [dy, o.name])

    def update(self, optimizer):
        rate = self.node("learning_rate", "Const", [], [])
        for name, shape in self.graph.variables.items():
            if name not in self.sums:
                continue
            slots = [self.node(f"{name}/slot_{i}", "VariableV2", [], shape, dtype="DT_FLOAT")
                     for i in range(SLOTS[optimizer])]
            self.node(f"train/{name}", UPDATES[optimizer], [name, *slots, rate, self.sum_of(name)], shape)

    def node(self, name, op, inputs, shape, device=DEVICE, dtype=None, **attributes):
        lines = ["node {", f'  name: "{name}"', f'  op: "{op}"', *(f'  input: "{i}"' for i in inputs)]
        if device:
            lines.append(f'  device: "{device}"')
        dimensions = " ".join(f"dim {{ size: {size} }}" for size in shape)
        values = {"_output_shapes": f"list {{ shape {{ {dimensions} }} }}"}
        if dtype:
            values["dtype"] = f"type: {dtype}"
            values["shape"] = f"shape {{ {dimensions} }}"
        elif op != "Const":
            values["T"] = "type: DT_FLOAT"
        for key, value in attributes.items():
            if isinstance(value, bool):
                values[key] = f"b: {str(value).lower()}"
            elif isinstance(value, str):
                values[key] = f's: "{value}"'
            else:
                values[key] = "list { " + " ".join(f"i: {i}" for i in value) + " }"
        lines += [f'  attr {{ key: "{key}" value {{ {value} }} }}' for key, value in values.items()]
        self.nodes.append("\n".join(lines) + "\n}\n")
        return name
