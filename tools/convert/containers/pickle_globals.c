/* The globals that a pickle may name, and how each may be used. See pickle.h.
 *
 * The list says what is allowed; everything else is refused. Nothing on it is imported or called:
 * "callable" means that a call is stored as data. Classes of the program that wrote the file
 * (Value, GPTConfig) become objects whose attributes can be read.
 */
#include "convert/containers/pickle_impl.h"

#include <string.h>

static const struct {
    const char *module, *name;
    enum pickle_use use;
} allowed[] = {
    {"collections", "OrderedDict", USE_DICT},
    {"collections", "defaultdict", USE_DICT},
    {"collections", "Counter", USE_DICT},
    {"builtins", "set", USE_LIST},
    {"builtins", "frozenset", USE_LIST},
    {"__builtin__", "set", USE_LIST},
    {"__builtin__", "frozenset", USE_LIST},
    {"builtins", "bytearray", USE_CALL},
    {"_codecs", "encode", USE_CALL},
    {"argparse", "Namespace", USE_NEW},
    {"pathlib", "PosixPath", USE_CALL},
    {"pathlib", "WindowsPath", USE_CALL},
    {"pathlib._local", "PosixPath", USE_CALL}, /* Python 3.13 */
    {"pathlib._local", "WindowsPath", USE_CALL},
    /* Lightning's hyper_parameters */
    {"pytorch_lightning.utilities.parsing", "AttributeDict", USE_DICT},
    {"lightning.pytorch.utilities.parsing", "AttributeDict", USE_DICT},
    {"lightning_fabric.utilities.data", "AttributeDict", USE_DICT},
    {"lightning.fabric.utilities.data", "AttributeDict", USE_DICT},
    /* PyTorch */
    {"torch._utils", "_rebuild_tensor", USE_CALL},
    {"torch._utils", "_rebuild_tensor_v2", USE_CALL},
    {"torch._utils", "_rebuild_tensor_v3", USE_CALL},
    {"torch._utils", "_rebuild_parameter", USE_CALL},
    {"torch._utils", "_rebuild_parameter_with_state", USE_CALL},
    {"torch._tensor", "_rebuild_from_type_v2", USE_CALL},
    {"torch.nn.parameter", "Parameter", USE_VALUE},
    {"torch", "Tensor", USE_VALUE},
    {"torch", "Size", USE_CALL},
    {"torch", "device", USE_CALL},
    {"torch.storage", "UntypedStorage", USE_VALUE},
    /* numpy 1 and 2 */
    {"numpy", "ndarray", USE_VALUE},
    {"numpy", "dtype", USE_CALL},
    {"numpy.core.multiarray", "scalar", USE_CALL},
    {"numpy._core.multiarray", "scalar", USE_CALL},
    {"numpy.core.multiarray", "_reconstruct", USE_CALL},
    {"numpy._core.multiarray", "_reconstruct", USE_CALL},
    {"numpy.core.numeric", "_frombuffer", USE_CALL},
    {"numpy._core.numeric", "_frombuffer", USE_CALL},
    /* transformers' outputs, which references are */
    {"transformers.modeling_outputs", "CausalLMOutput", USE_DICT},
    {"transformers.modeling_outputs", "CausalLMOutputWithPast", USE_DICT},
    {"transformers.modeling_outputs", "CausalLMOutputWithCrossAttentions", USE_DICT},
    {"transformers.generation.utils", "GenerateDecoderOnlyOutput", USE_DICT},
    {"transformers.generation.utils", "GreedySearchDecoderOnlyOutput", USE_DICT}, /* before 4.38 */
    {"transformers.generation.utils", "SampleDecoderOnlyOutput", USE_DICT},
    {"transformers.cache_utils", "DynamicCache", USE_NEW},
    {"transformers.cache_utils", "DynamicLayer", USE_NEW},
    /* nanochat's tokenizer */
    {"tiktoken.core", "Encoding", USE_NEW},
};

/* torch's element types and storages: values, never called. */
static const struct {
    enum state_type type;
    const char *names[7];
} torch_values[] = {
    {STATE_F32, {"FloatStorage", "float32", "float"}},
    {STATE_F16, {"HalfStorage", "float16", "half"}},
    {STATE_BF16, {"BFloat16Storage", "bfloat16"}},
    {STATE_F64, {"DoubleStorage", "float64", "double"}},
    {STATE_I64, {"LongStorage", "int64", "long"}},
    {STATE_I32, {"IntStorage", "int32", "int"}},
    {STATE_I16, {"ShortStorage", "int16"}},
    {STATE_I8, {"CharStorage", "int8"}},
    {STATE_U8, {"ByteStorage", "uint8"}},
    {STATE_BOOL, {"BoolStorage", "bool"}},
    {STATE_OTHER,
     {"ComplexFloatStorage", "complex64", "uint16", "uint32", "uint64", "float8_e4m3fn",
      "float8_e5m2"}},
};

/* Classes of training programs, in any module: these names, and what ends so. */
static const char *const data_classes[] = {"Value", "CfgNode"};
static const char *const data_ends[] = {"Config", "Args", "Tokenizer"};

static int equal(struct gguf_str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

static int any(struct gguf_str s, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (equal(s, names[i]))
            return 1;
    return 0;
}

static int ends_so(struct gguf_str s, const char *const *ends, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(ends[i]);
        if (s.n >= length && memcmp(s.p + s.n - length, ends[i], length) == 0)
            return 1;
    }
    return 0;
}

int pickle_torch_value(struct gguf_str name, enum state_type *type)
{
    for (size_t i = 0; i < sizeof torch_values / sizeof *torch_values; i++)
        for (size_t k = 0; k < 7 && torch_values[i].names[k]; k++)
            if (equal(name, torch_values[i].names[k])) {
                *type = torch_values[i].type;
                return 1;
            }
    return 0;
}

/* A dotted name reaches through the module to another object: __main__ "os.system". */
static int is_identifier(struct gguf_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i > 0 && c >= '0' && c <= '9'))
            return 0;
    }
    return s.n > 0;
}

enum pickle_use pickle_use_of(struct gguf_str module, struct gguf_str name)
{
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (equal(module, allowed[i].module) && equal(name, allowed[i].name))
            return allowed[i].use;
    enum state_type type;
    if (equal(module, "torch") && pickle_torch_value(name, &type))
        return USE_VALUE;
    if (!is_identifier(name))
        return USE_NONE;
    if (equal(module, "__main__") ||
        any(name, data_classes, sizeof data_classes / sizeof *data_classes) ||
        ends_so(name, data_ends, sizeof data_ends / sizeof *data_ends))
        return USE_NEW;
    return USE_NONE;
}
