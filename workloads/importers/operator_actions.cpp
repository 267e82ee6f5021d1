#include "workloads/importers/operator_actions.hpp"

#include <cctype>
#include <map>
#include <string>

namespace rehearse {

namespace {

using Action = OperatorAction;

/// "aten.max_pool2d.default" and "MaxPool2d" are "maxpool".
std::string plain_name(std::string_view type) {
  for (const char* prefix : {"torch.ops.", "aten.", "prims.", "ai.onnx."})
    if (type.starts_with(prefix)) type.remove_prefix(std::string_view{prefix}.size());
  type = type.substr(0, type.find('.'));
  std::string name;
  for (const char c : type)
    if (c != '_') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* suffix : {"1d", "2d", "3d", "v2", "v3", "v4"})
    if (name.size() > 2 && name.ends_with(suffix)) name.resize(name.size() - 2);
  return name;
}

const std::map<std::string, Action, std::less<>>& actions() {
  static const std::map<std::string, Action, std::less<>> all = [] {
    std::map<std::string, Action, std::less<>> table;
    const auto add = [&](Action action, std::initializer_list<const char*> names) {
      for (const char* name : names) table[name] = action;
    };
    add(Action::kConstant, {"size",
                            "shape",
                            "shapeof",
                            "getattr",
                            "arange",
                            "range",
                            "ones",
                            "zeros",
                            "full",
                            "oneslike",
                            "zeroslike",
                            "fulllike",
                            "dim",
                            "len",
                            "numel",
                            "finfo",
                            "constant",
                            "constantofshape",
                            "rangeop",
                            "newones",
                            "newzeros",
                            "rand",
                            "randn",
                            "scalartensor",
                            "tensor",
                            "symsize",
                            "assert",
                            "assertasync",
                            "placeholderwithdefault",
                            "randomuniform",
                            "randomuniformlike",
                            "truncatednormal",
                            "randomstandardnormal",
                            "item",
                            "eyelike",
                            "noop"});
    add(Action::kIdentity, {"identity",        "to",       "float",         "half",
                            "bfloat16",        "cast",     "typeas",        "detach",
                            "clone",           "alias",    "liftfreshcopy", "stopgradient",
                            "preventgradient", "tocopy",   "checknumerics", "readvariableop",
                            "stochasticdepth", "droppath", "cuda",          "cpu"});
    add(Action::kActivation, {"relu",
                              "relu6",
                              "gelu",
                              "quickgelu",
                              "newgelu",
                              "silu",
                              "swish",
                              "mish",
                              "sigmoid",
                              "hardsigmoid",
                              "hardswish",
                              "tanh",
                              "elu",
                              "selu",
                              "celu",
                              "leakyrelu",
                              "softplus",
                              "softsign",
                              "hardtanh",
                              "clip",
                              "clamp",
                              "softmax",
                              "logsoftmax",
                              "exp",
                              "erf",
                              "threshold",
                              "logsigmoid",
                              "log",
                              "sqrt",
                              "rsqrt",
                              "sin",
                              "cos",
                              "abs",
                              "hardmax",
                              "thresholdedrelu",
                              "relun",
                              "reciprocal",
                              "geluactivation",
                              "newgeluactivation",
                              "fastgelu"});
    add(Action::kDropout, {"dropout", "featuredropout", "alphadropout", "nativedropout"});
    add(Action::kAdd, {"add", "iadd", "addn", "sum2", "biasadd", "addv", "sub", "isub", "rsub", "subtract"});
    add(Action::kMultiply, {"mul", "imul", "multiply", "div", "truediv", "realdiv", "itruediv", "divide", "glu"});
    add(Action::kElementwise, {"neg",
                               "pow",
                               "maskedfill",
                               "where",
                               "maximum",
                               "minimum",
                               "max2",
                               "min2",
                               "prelu",
                               "pad",
                               "padv",
                               "upsample",
                               "interpolate",
                               "resize",
                               "upsamplenearest",
                               "upsamplebilinear",
                               "resizebilinear",
                               "resizenearestneighbor",
                               "lrn",
                               "localresponsenorm",
                               "cumsum",
                               "roll",
                               "flip",
                               "square",
                               "squareddifference",
                               "scatter",
                               "tile",
                               "repeat",
                               "expand",
                               "expandas",
                               "broadcastto",
                               "repeatinterleave",
                               "pixelshuffle",
                               "depthtospace",
                               "spacetodepth",
                               "mod",
                               "channelshuffle",
                               "channelrandom",
                               "argmax",
                               "topk",
                               "gathernd",
                               "gatherelements",
                               "scatternd",
                               "einsumcopy",
                               "fakequantize",
                               "round",
                               "floor",
                               "ceil",
                               "sign",
                               "bitwisenot",
                               "not",
                               "equal",
                               "greater",
                               "less",
                               "and",
                               "or",
                               "tril",
                               "triu",
                               "baddbmmcopy"});
    add(Action::kConcatenate, {"cat", "concat", "concatenate", "stack", "pack", "hstack", "vstack"});
    add(Action::kConvolution, {"conv", "convolution", "conv1dop", "depthwiseconv", "depthwiseconv2dnative",
                               "conv2dsame", "conv2dstaticsamepadding"});
    add(Action::kTransposedConvolution, {"convtranspose", "conv2dbackpropinput", "convtransposed"});
    add(Action::kLinear, {"linear", "gemm", "addmm", "dense", "conv1dgpt", "nondynamicallyquantizablelinear"});
    add(Action::kProduct, {"matmul", "bmm", "mm", "batchmatmul", "baddbmm", "einsum", "imatmul"});
    add(Action::kBatchNorm, {"batchnorm", "batchnormalization", "fusedbatchnorm", "nativebatchnorm", "syncbatchnorm",
                             "frozenbatchnorm", "batchnormact", "nativebatchnormlegit"});
    add(Action::kGroupNorm,
        {"groupnorm", "groupnormalization", "instancenorm", "instancenormalization", "nativegroupnorm"});
    add(Action::kLayerNorm, {"layernorm", "layernormalization", "nativelayernorm", "fusedlayernorm"});
    add(Action::kRmsNorm,
        {"rmsnorm", "simplifiedlayernormalization", "rmsnormalization", "llamarmsnorm", "t5layernorm"});
    add(Action::kMaxPool,
        {"maxpool", "adaptivemaxpool", "globalmaxpool", "maxpoolwithindices", "maxpool2dwithindices"});
    add(Action::kAveragePool,
        {"avgpool", "averagepool", "adaptiveavgpool", "globalaveragepool", "lppool", "globallppool"});
    add(Action::kReduce, {"mean", "sum", "reducemean", "reducesum", "amax", "amin", "reducemax", "max", "min", "norm",
                          "reducemin", "var", "std", "logsumexp", "reducel2", "prod", "argmin", "any", "all"});
    add(Action::kReshape,
        {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "expanddims", "permute", "transpose", "t",
         "viewas", "swapaxes", "movedim", "unsafeview", "rearrange", "asstrided", "unfold", "swapdims"});
    add(Action::kCopy, {"contiguous"});
    add(Action::kPart, {"getitem", "select", "slice", "narrow", "chunk", "split", "splitwithsizes", "unbind",
                        "stridedslice", "indexselect", "index", "splitv", "tensorsplit", "takealongdim"});
    add(Action::kEmbedding, {"embedding", "gather", "embeddingbag", "resourcegather", "embeddinglookup"});
    add(Action::kAttention,
        {"scaleddotproductattention", "scaleddotproductflashattention", "scaleddotproductefficientattention"});
    add(Action::kAttentionLayer, {"multiheadattention"});
    add(Action::kLstm, {"lstm"});
    return table;
  }();
  return all;
}

}  // namespace

std::optional<OperatorAction> action_of(std::string_view type) {
  const auto found = actions().find(plain_name(type));
  return found == actions().end() ? std::nullopt : std::optional{found->second};
}

}  // namespace rehearse
