#!/usr/bin/env python3
"""Names of kernels in traces of PyTorch's profiler, each with the class of the operator that launched it.

    python3 kernel_names.py TRACE.json.gz... > rows.tsv
    python3 kernel_names.py calibration/data/h200-layers/kernels.csv > rows.tsv

The class does not come from the kernel's name: a call of the runtime has the kernel's correlation, and the innermost
operator around it, of those that OPERATORS knows, is what the kernel is for. Work that an operator needs besides its own
(AUXILIARY) has the class of what it does. Of operators that are many kinds of work (MIXED) nothing else is told. Columns as
in kernel_names.tsv: name, class, precision (left empty), library, source, set.
"""
import bisect
import collections
import csv
import gzip
import json
import os
import re
import sys

MIXED = r"aten::(_?linalg_(eigh|svd|qr|lu|cholesky)|lu_unpack|_coalesce|_cudnn_rnn|masked_select|_fft|fft|_assert_async)"

OPERATORS = [  # the first expression that matches an operator from its beginning
    (r"aten::(_scaled_dot_product|_flash_attention|_efficient_attention|_cudnn_attention)", "attention"),
    (r"aten::(mm|addmm|bmm|baddbmm|addmv|mv|dot|_addmm_activation|_scaled_mm|_grouped_mm|_int_mm|linear|linalg_solve_triangular"
     r"|linalg_lu_solve)_?\b", "matrix-product"),
    (r"aten::(cudnn_convolution|miopen_convolution|convolution|_convolution|slow_conv|thnn_conv|conv|_conv_depthwise|im2col|col2im)",
     "convolution"),
    (r"aten::(native_layer_norm|layer_norm|cudnn_batch_norm|native_batch_norm|batch_norm|miopen_batch_norm|native_group_norm"
     r"|_fused_rms_norm|var\b)", "normalization"),
    (r"aten::(_softmax|_log_softmax|softmax|log_softmax|_masked_softmax)", "softmax"),
    (r"aten::(embedding|_embedding|index|_index_put_impl_|gather|scatter|take|put)", "embedding"),
    (r"(fbgemm::split_embedding|fbgemm::dense_embedding|torch::autograd::CppNode<Split|fbgemm::bounds_check"
     r"|fbgemm::permute|torch::autograd::CppNode<fbgemm_gpu::Permute)", "embedding"),
    (r"aten::(max_pool|avg_pool|adaptive_avg_pool|_adaptive_avg_pool|adaptive_max_pool|adaptive_average)", "pooling"),
    (r"aten::_foreach|aten::_fused_(adam|sgd|adagrad)|aten::_amp_", "optimizer"),
    (r"(record_param_comms|c10d::|nccl:)", "collective"),
    (r"aten::(sort|topk|cumsum|cumprod|unique|_unique2|nonzero|searchsorted|bucketize|histc|median|randperm|bincount)", "sort"),
    (r"(fbgemm::asynchronous_complete_cumsum)", "sort"),
    (r"aten::(copy_|cat|clone|contiguous|_to_copy|stack|repeat_interleave|flip|roll|_local_scalar_dense|reflection_pad|replication_pad)",
     "copy"),
    (r"aten::(sum|mean|max|min|amax|amin|argmax|argmin|norm|linalg_vector_norm|any|all|prod)\b|aten::nll_loss", "reduction"),
    (r"fbgemm::(FloatTo|HFP8|FP8|.*Quantized)", "element-wise"),
    (r"aten::([a-z]|_thnn_fused|_prelu)", "element-wise"),
]

AUXILIARY = [  # of the kernel's name: what operators need besides their own work
    (r"Memcpy|Memset", "copy"),
    (r".*(nchwToNhwc|nhwcToNchw|nhwcAddPadding|nhwcSlice)", "copy"),
    (r".*(scalePackedTensor|scaleTensor_kernel|mbtopk::fill|scal_kernel|matrix_scalar_multiply)", "element-wise"),
    (r".*at::native::reduce_kernel", "reduction"),
    (r".*at::native::(vectorized|unrolled)_elementwise_kernel<.*copy_device_to_device", "copy"),
    (r"(void cutlass::Kernel2?<cutlass_\w+|ampere_|volta_)[a-z0-9]*gemm_", "matrix-product"),  # of a convolution, too
    (r"nvjet_|sm\d+_xmma_gemm_|void (gemv|gemm)\w+<", "matrix-product"),
    (r".*lpnorm_cleanup|.*cub::.*DeviceReduce(SingleTile)?Kernel", "reduction"),
    (r".*cub::.*transform_kernel", "element-wise"),
    (r".*(csr_partition_kernel|convert_CooToCsr|masked_scatter_size_check)", "other"),
    (r".*cub::", "sort"),
]


def class_of(operators, name):
    for expression, kind in AUXILIARY:
        if re.match(expression, name):
            return kind
    if any(re.match(MIXED, operator) for operator in operators):
        return None
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


def rows_of(path):
    """(name, operators) of each kernel of a trace, or of a table with the columns "kernel" and "operator"."""
    if path.endswith(".csv"):
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                yield row["kernel"], [row["operator"]]
        return
    with (gzip.open(path, "rt", errors="replace") if path.endswith(".gz") else open(path)) as file:
        trace = json.load(file)
    yield from launches(trace["traceEvents"] if isinstance(trace, dict) else trace)


def main():
    votes, source = collections.defaultdict(collections.Counter), {}
    for path in sys.argv[1:]:
        for name, operators in rows_of(path):
            kind = class_of(operators, name)
            if kind:
                votes[name][kind] += 1
                source.setdefault(name, os.path.basename(path))
    for name in sorted(votes):
        print(name.replace("\t", " "), votes[name].most_common(1)[0][0], "", "PyTorch", source[name], "by operator",
              sep="\t")


if __name__ == "__main__":
    main()
