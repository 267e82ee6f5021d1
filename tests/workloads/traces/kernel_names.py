#!/usr/bin/env python3
"""Names of kernels in traces of PyTorch's profiler, each with the class of the operator that launched it.

    python3 kernel_names.py TRACE.json.gz... > rows.tsv

The class does not come from the kernel's name: a call of the runtime has the kernel's correlation, and the innermost
operator around it, of those that OPERATORS knows, is what the kernel is for. Work that an operator needs besides its own
(AUXILIARY) has the class of what it does. Columns as in kernel_names.tsv: name, class, precision (left empty), library, source, set.
"""
import bisect
import collections
import gzip
import json
import os
import re
import sys

OPERATORS = [  # the first expression that matches an operator from its beginning
    (r"aten::(_scaled_dot_product|_flash_attention|_efficient_attention|_cudnn_attention)", "attention"),
    (r"aten::(mm|addmm|bmm|baddbmm|addmv|mv|dot|_addmm_activation|_scaled_mm|linear)\b", "matrix-product"),
    (r"aten::(cudnn_convolution|miopen_convolution|convolution|_convolution|slow_conv|thnn_conv|conv)", "convolution"),
    (r"aten::(native_layer_norm|layer_norm|cudnn_batch_norm|native_batch_norm|batch_norm|miopen_batch_norm|native_group_norm"
     r"|_fused_rms_norm|var\b)", "normalization"),
    (r"aten::(_softmax|_log_softmax|softmax|log_softmax|_masked_softmax)", "softmax"),
    (r"aten::(embedding|index|_index_put_impl_|gather|scatter|take|put)", "embedding"),
    (r"(fbgemm::split_embedding|fbgemm::dense_embedding|torch::autograd::CppNode<Split|fbgemm::bounds_check"
     r"|fbgemm::permute|torch::autograd::CppNode<fbgemm_gpu::Permute)", "embedding"),
    (r"aten::(max_pool|avg_pool|adaptive_avg_pool|_adaptive_avg_pool|adaptive_max_pool|adaptive_average)", "pooling"),
    (r"aten::_foreach|aten::_fused_(adam|sgd|adagrad)", "optimizer"),
    (r"(record_param_comms|c10d::|nccl:)", "collective"),
    (r"aten::(sort|topk|cumsum|cumprod|unique|_unique2|nonzero|searchsorted|bucketize|histc)", "sort"),
    (r"(fbgemm::asynchronous_complete_cumsum)", "sort"),
    (r"aten::(copy_|cat|clone|contiguous|_to_copy|stack|repeat_interleave|flip|roll)", "copy"),
    (r"aten::(sum|mean|max|min|amax|amin|argmax|argmin|norm|linalg_vector_norm|any|all|prod|nll_loss)", "reduction"),
    (r"fbgemm::(FloatTo|HFP8|FP8|.*Quantized)", "element-wise"),
    (r"aten::[a-z]", "element-wise"),
]

AUXILIARY = [  # of the kernel's name: what operators need besides their own work
    (r"Memcpy|Memset", "copy"),
    (r".*(nchwToNhwc|nhwcToNchw)", "copy"),
    (r".*scalePackedTensor", "element-wise"),
    (r".*at::native::reduce_kernel", "reduction"),
    (r".*at::native::(vectorized|unrolled)_elementwise_kernel<.*copy_device_to_device", "copy"),
    (r"(void cutlass::Kernel<cutlass_\w+|ampere_|volta_)[a-z0-9]*gemm_", "matrix-product"),  # of a convolution, too
    (r".*cub::", "sort"),
]


def class_of(operators, name):
    for expression, kind in AUXILIARY:
        if re.match(expression, name):
            return kind
    for operator in operators:
        for expression, kind in OPERATORS:
            if re.match(expression, operator):
                return kind
    return None


def launches(events):
    """Names of kernels and copies, with the operators around the launch, from the innermost outwards."""
    operators, calls, work = collections.defaultdict(list), {}, []
    for event in events:
        if event.get("ph") != "X" or "dur" not in event:
            continue
        category = event.get("cat", "").lower()
        if category in ("cpu_op", "operator", "user_annotation"):
            operators[event["pid"], event["tid"]].append((event["ts"], -event["dur"], event["name"]))
        elif category in ("cuda_runtime", "runtime", "cuda_driver"):
            calls.setdefault(event.get("args", {}).get("correlation"), event)
        elif category in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"):
            work.append(event)
    for thread in operators.values():
        thread.sort()
    for event in work:
        call = calls.get(event["args"].get("correlation"))
        if call is None:
            continue
        thread = operators[call["pid"], call["tid"]]
        first = bisect.bisect_right(thread, (call["ts"], 1e30, "")) - 1
        yield event["name"], [name for start, negative, name in reversed(thread[max(first - 400, 0):first + 1])
                              if start - negative >= call["ts"]]


def main():
    votes, source = collections.defaultdict(collections.Counter), {}
    for path in sys.argv[1:]:
        with (gzip.open(path, "rt", errors="replace") if path.endswith(".gz") else open(path)) as file:
            trace = json.load(file)
        for name, operators in launches(trace["traceEvents"] if isinstance(trace, dict) else trace):
            kind = class_of(operators, name)
            if kind:
                votes[name][kind] += 1
                source.setdefault(name, os.path.basename(path))
    for name in sorted(votes):
        print(name.replace("\t", " "), votes[name].most_common(1)[0][0], "", "PyTorch", source[name], "by operator",
              sep="\t")


if __name__ == "__main__":
    main()
