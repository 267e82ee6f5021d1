#include "workloads/importers/operator_actions.hpp"

#include <algorithm>
#include <array>
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

struct Row {
  Action action;
  std::string_view names;  // between blanks
};

constexpr std::array kRows{
    Row{Action::kConstant,
        "size shape shapeof getattr arange range ones zeros full oneslike zeroslike fulllike dim len "
        "numel finfo constant constantofshape newones newzeros rand randn scalartensor tensor symsize "
        "assert assertasync placeholderwithdefault randomuniform randomuniformlike truncatednormal "
        "randomstandardnormal item eyelike noop fill rank shapen"},
    Row{Action::kIdentity,
        "identity to float half bfloat16 cast typeas detach clone alias liftfreshcopy stopgradient "
        "preventgradient tocopy checknumerics readvariableop stochasticdepth droppath cuda cpu"},
    Row{Action::kActivation,
        "relu relu6 gelu quickgelu newgelu silu swish mish sigmoid hardsigmoid hardswish tanh elu selu "
        "celu leakyrelu softplus softsign hardtanh clip clamp softmax logsoftmax exp erf threshold "
        "logsigmoid log sqrt rsqrt sin cos abs hardmax thresholdedrelu relun reciprocal geluactivation "
        "newgeluactivation fastgelu"},
    Row{Action::kDropout, "dropout featuredropout alphadropout nativedropout"},
    Row{Action::kAdd, "add iadd addn biasadd addv sub isub rsub subtract"},
    Row{Action::kMultiply, "mul imul multiply div truediv realdiv itruediv divide glu"},
    Row{Action::kElementwise,
        "neg pow maskedfill where maximum minimum prelu pad upsample interpolate resize upsamplenearest "
        "upsamplebilinear resizebilinear resizenearestneighbor lrn localresponsenorm cumsum roll flip "
        "square squareddifference scatter tile repeat expand expandas broadcastto repeatinterleave "
        "pixelshuffle depthtospace spacetodepth mod argmax topk gathernd gatherelements scatternd "
        "fakequantize round floor ceil sign bitwisenot not equal greater less and or tril triu onehot selectv "
        "clipbyvalue log1p expm1 xdivy mulnonan fakequantwithminmaxvars fakequantwithminmaxargs "
        "fakequantwithminmaxvarsperchannel accumulatenv mirrorpad padv reverse reversesequence cropandresize "
        "resizebicubic resizearea spacetobatchnd matrixbandpart divnonan floordiv floormod invert l2loss "
        "adjustcontrast"},
    Row{Action::kConcatenate, "cat concat concatenate stack pack hstack vstack"},
    Row{Action::kConvolution,
        "conv convolution depthwiseconv depthwiseconv2dnative conv2dsame conv2dstaticsamepadding"},
    Row{Action::kTransposedConvolution, "convtranspose conv2dbackpropinput convtransposed"},
    Row{Action::kLinear, "linear gemm addmm dense nondynamicallyquantizablelinear"},
    Row{Action::kProduct, "matmul bmm mm batchmatmul baddbmm einsum imatmul"},
    Row{Action::kBatchNorm,
        "batchnorm batchnormalization fusedbatchnorm nativebatchnorm syncbatchnorm frozenbatchnorm "
        "batchnormact nativebatchnormlegit"},
    Row{Action::kGroupNorm, "groupnorm groupnormalization instancenorm instancenormalization nativegroupnorm"},
    Row{Action::kLayerNorm, "layernorm layernormalization nativelayernorm fusedlayernorm"},
    Row{Action::kRmsNorm, "rmsnorm simplifiedlayernormalization rmsnormalization llamarmsnorm t5layernorm"},
    Row{Action::kMaxPool, "maxpool adaptivemaxpool globalmaxpool maxpoolwithindices maxpool2dwithindices"},
    Row{Action::kAveragePool, "avgpool averagepool adaptiveavgpool globalaveragepool lppool globallppool"},
    Row{Action::kReduce,
        "mean sum reducemean reducesum amax amin reducemax max min norm reducemin var std logsumexp "
        "reducel2 prod argmin any all"},
    Row{Action::kReshape,
        "view reshape flatten unflatten squeeze unsqueeze expanddims permute transpose t viewas "
        "swapaxes movedim unsafeview rearrange asstrided unfold swapdims"},
    Row{Action::kCopy, "contiguous"},
    Row{Action::kPart,
        "getitem select slice narrow chunk split splitwithsizes unbind stridedslice indexselect index "
        "splitv tensorsplit takealongdim unpack unstack batchtospacend extractimagepatches"},
    Row{Action::kEmbedding, "embedding gather embeddingbag resourcegather embeddinglookup"},
    Row{Action::kAttention,
        "scaleddotproductattention scaleddotproductflashattention scaleddotproductefficientattention"},
    Row{Action::kAttentionLayer, "multiheadattention"},
    Row{Action::kLstm, "lstm"},
    Row{Action::kGru, "gru"},
    Row{Action::kRnn, "rnn"}};

const std::map<std::string_view, Action>& actions() {
  static const std::map<std::string_view, Action> all = [] {
    std::map<std::string_view, Action> table;
    for (const Row& row : kRows)
      for (std::string_view names = row.names; !names.empty();) {
        const std::size_t end = std::min(names.find(' '), names.size());
        table.emplace(names.substr(0, end), row.action);
        names.remove_prefix(std::min(end + 1, names.size()));
      }
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
