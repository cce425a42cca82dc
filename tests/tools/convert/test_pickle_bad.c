/* The pickle machine: what it must never do. Pickles that want to run something, that misuse what
 * is allowed, that are malformed, cut off or damaged.
 */
#include "support/torch_input.h"
#include "support/unit.h"

#include "convert/containers/pickle_impl.h"

/* ---- what is refused ------------------------------------------------------------------------- */

/* Ways to run something that are in circulation: direct ones, and ones that get around lists of
 * forbidden names. */
/* clang-format off */
static const struct {
    const char *module, *name;
} malicious[] = {
    {"os", "system"}, {"posix", "system"}, {"nt", "system"}, {"os", "popen"}, {"os", "execve"},
    {"subprocess", "Popen"}, {"subprocess", "check_output"}, {"subprocess", "getoutput"},
    {"builtins", "eval"}, {"builtins", "exec"}, {"builtins", "compile"}, {"builtins", "getattr"},
    {"builtins", "open"}, {"builtins", "__import__"}, {"builtins", "map"}, {"builtins", "filter"},
    {"builtins", "apply"}, {"builtins", "bytes"}, {"builtins", "object"}, {"builtins", "type"},
    {"__builtin__", "eval"}, {"__builtin__", "execfile"}, {"__builtin__", "file"},
    {"builtins", "set.__class__"}, {"importlib", "import_module"},
    {"importlib.util", "find_spec"}, {"runpy", "_run_code"}, {"runpy", "run_path"},
    {"pty", "spawn"}, {"platform", "popen"}, {"socket", "create_connection"},
    {"webbrowser", "open"}, {"urllib.request", "urlopen"}, {"requests.api", "get"},
    {"httplib", "HTTPSConnection"}, {"aiohttp.client", "ClientSession"},
    {"operator", "attrgetter"}, {"operator", "methodcaller"}, {"functools", "partial"},
    {"functools", "reduce"}, {"itertools", "starmap"}, {"types", "FunctionType"},
    {"types", "CodeType"}, {"marshal", "loads"}, {"pickle", "loads"}, {"_pickle", "Unpickler"},
    {"cloudpickle.cloudpickle", "_make_function"}, {"dill._dill", "_create_function"},
    {"joblib.numpy_pickle", "load"}, {"__main__", ""}, {"copyreg", "_reconstructor"}, {"copy_reg", "__newobj__"},
    {"codecs", "open"}, {"_io", "FileIO"}, {"io", "open"}, {"shutil", "rmtree"}, {"sys", "exit"},
    {"sys", "modules"}, {"ctypes", "CDLL"}, {"_ctypes", "dlopen"},
    {"code", "InteractiveInterpreter"}, {"bdb", "Bdb.run"}, {"pdb", "run"}, {"timeit", "timeit"},
    {"timeit", "Timer"}, {"cProfile", "run"}, {"profile", "Profile.run"}, {"trace", "Trace.run"},
    {"doctest", "debug_script"}, {"asyncio.unix_events", "_UnixSubprocessTransport._start"},
    {"multiprocessing.util", "spawnv_passfds"}, {"distutils.file_util", "write_file"},
    {"idlelib.run", "Executive.runcode"}, {"lib2to3.pgen2.grammar", "Grammar.loads"},
    {"logging.config", "_resolve"}, {"pydoc", "pipepager"}, {"pydoc", "locate"}, {"pip", "main"},
    {"pip._internal", "main"}, {"pkgutil", "resolve_name"}, {"imp", "load_source"},
    {"zipimport", "zipimporter.load_module"}, {"linecache", "updatecache"},
    {"ensurepip", "_run_pip"}, {"venv", "create"}, {"torch", "load"}, {"torch", "save"},
    {"torch", "compile"}, {"torch.serialization", "load"}, {"torch.hub", "load"},
    {"torch.jit", "load"}, {"torch._utils", "_import_dotted_name"},
    {"torch._utils", "__builtins__"}, {"torch.storage", "_load_from_bytes"},
    {"torch.utils.collect_env", "run"}, {"torch.utils.bottleneck.__main__", "run_cprofile"},
    {"torch._inductor.codecache", "compile_file"},
    {"torch.jit.unsupported_tensor_ops", "execWrapper"},
    {"torch.utils._config_module", "ConfigModule.load_config"},
    {"torch.distributed.rpc.internal", "_run_function"},
    {"torch.fx.experimental.symbolic_shapes", "eval"}, {"torch.nn.modules.linear", "Linear"},
    {"torch._dynamo.guards", "GuardBuilder.get"}, {"numpy", "load"}, {"numpy", "fromfile"},
    {"numpy.testing._private.utils", "runstring"}, {"numpy.f2py.crackfortran", "getlincoef"},
    {"numpy.distutils.exec_command", "exec_command"}, {"numpy.core.multiarray", "fromfile"},
    {"tensorflow.io", "read_file"}, {"keras.models", "load_model"}, {"transformers", "pipeline"},
    {"__main__", "os.system"}, {"__main__", "__builtins__.eval"}, {"", "system"}, {"os", ""},
    {"OS", "system"}, {"torch._utils\n", "x"},
};
/* clang-format on */

/* Where a module's name holds a line end it can only come from the stack. */
static size_t put_text_global(char *out, size_t cap, size_t i)
{
    if (strchr(malicious[i].module, '\n'))
        return 0;
    return (size_t)snprintf(out, cap, "\x80\002c%s\n%s\nU\x02id\x85R.", malicious[i].module,
                            malicious[i].name);
}

static size_t put_stack_global(char *out, size_t i)
{
    const char *const texts[] = {malicious[i].module, malicious[i].name};
    size_t n = 2;
    memcpy(out, "\x80\x04", 2);
    for (int k = 0; k < 2; k++) {
        size_t length = strlen(texts[k]);
        out[n++] = (char)0x8c;
        out[n++] = (char)length;
        memcpy(out + n, texts[k], length);
        n += length;
    }
    memcpy(out + n, "\x93\x8c\x02id\x85R.", 8);
    return n + 8;
}

/* What programs keep next to the weights is data: configurations and tokenizers of their own. */
TEST(data_classes)
{
    static const struct {
        const char *name;
        enum pickle_use use;
    } names[] = {
        {"TrainConfig", USE_NEW}, {"CharTokenizer", USE_NEW},       {"ModelArgs", USE_NEW},
        {"Value", USE_NEW},       {"os.MyConfig", USE_NONE},        {"Configure", USE_NONE},
        {"MyGPT", USE_NONE},      {"system.Tokenizer()", USE_NONE}, {"Config", USE_NEW}};
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(pickle_use_of((struct gguf_str){"tokenizer", 9},
                                       (struct gguf_str){names[i].name, strlen(names[i].name)}),
                         names[i].use);
}

TEST(malicious)
{
    char bytes[300], want[200];
    for (size_t i = 0; i < COUNT(malicious); i++) {
        const char *module = malicious[i].module, *name = malicious[i].name;
        snprintf(want, sizeof want, "pickle: global %.40s", module);
        if (strchr(module, '\n'))
            snprintf(want, sizeof want, "is not allowed");
        size_t n = put_text_global(bytes, sizeof bytes, i);
        if (n)
            refused((struct span){(const uint8_t *)bytes, n}, want);
        n = put_stack_global(bytes, i);
        refused((struct span){(const uint8_t *)bytes, n}, want);
        assert_int_equal(pickle_use_of((struct gguf_str){module, strlen(module)},
                                       (struct gguf_str){name, strlen(name)}),
                         USE_NONE);
    }
    refused(P2("cos\nsystem\nU\x02id\x85R."), "pickle: global os.system is not allowed");
    refused(P2("cos\nsystem\n0N."), "global os.system"); /* not even called */
}

/* A whole model is not a state_dict: only there does this help. */
TEST(advice)
{
    static const char advice[] = "; save model.state_dict(), not the model";
    const struct {
        struct span bytes;
        const char *advice;
    } rows[] = {{P2("ctorch.nn\nModule\n."), advice},
                {P2("ctorch.nn.modules.linear\nLinear\n."), advice},
                {P2("ctorch.n\nModule\n."), ""},
                {P2("ctorch.ns\nModule\n."), ""},
                {P2("cmodel\nGPT\n)\x81}(U\x0b_parametersNU\x08_buffersN."), advice},
                {P2("cmodel\nGPT\n)\x81}(U\x0b_parametersNU\x07_bufferN."), ""},
                {P2("cmodel\nGPT\n)\x81}(U\x0a_parameterNU\x08_buffersN."), ""},
                {P2("csubprocess\nPopen\n."), ""}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pickle p;
        mgpt_error err;
        assert_int_equal(pickle_read(&p, rows[i].bytes, &err), MGPT_EFILE);
        const char *found = strstr(err.text, "is not allowed");
        assert_non_null(found);
        assert_string_equal(found + strlen("is not allowed"), rows[i].advice);
    }
}

struct refusal {
    struct span bytes;
    const char *text;
};

static void all_refused(const struct refusal *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        refused(rows[i].bytes, rows[i].text);
}

/* Names of the list, used in another way than theirs. */
TEST(misuse)
{
    const struct refusal rows[] = {
        {P2("c__main__\nValue\n)R."), "__main__.Value is not allowed to be"},
        {P2("ctorch\nTensor\n)R."), "torch.Tensor is not allowed"},
        {P2("ctorch\nfloat32\n)\x81."), "torch.float32 is not allowed"},
        {P2("ctorch\ndevice\n)\x81."), "torch.device is not allowed"},
        {P2("(ios\nsystem\n."), "global os.system is not allowed"},
        {P2("c__main__\nGPT~\n)\x81."), "global __main__.GPT~ is not allowed"},
        {P2("c__main__\n2GPT\n)\x81."), "global __main__.2GPT is not allowed"},
        {P2("(i__main__\nValue\n."), "INST"},
        {P2("(c__main__\nValue\no."), "OBJ"},
        {P2("\x82\x01."), "EXT1"},
        {P4("c__main__\nValue\n)}\x92."), "NEWOBJ_EX"},
        {P2("Pabc\n."), "PERSID"},
        /* a first state that is to make the second one a call */
        {P2("c__main__\nX\n)\x81}U\x0c__setstate__Nsb}b."), "second state"},
        {P2("U\x02id)R."), "call of what is not a global"},
        {P2("ctorch\ndevice\n)R)R."), "call of what is not a global"},
        {P2("ctorch\ndevice\nNR."), "without a tuple"},
        {P4("K\x01K\x02\x93."), "STACK_GLOBAL of what is not text"},
        {P2("K\x01}b."), "state for what is not an object"},
    };
    const struct span names[] = {P2("c__main__\nGPT209\n)\x81."), P2("c__main__\nG2\n)\x81.")};
    all_refused(rows, COUNT(rows));
    for (size_t i = 0; i < COUNT(names); i++) { /* digits are letters but for the first */
        struct pickle p = good(names[i]);
        pickle_free(&p);
    }
}

TEST(malformed)
{
    const struct refusal rows[] = {
        {BYTES("\x80\x01N."), "protocol 1, expected 2 to 5"},
        {BYTES("\x80\x06N."), "protocol 6"},
        {P2("."), "exactly one value"},
        {P2("NN."), "exactly one value"},
        {P2("(N."), "exactly one value"},
        {P2("t."), "no mark"},
        {P2("}(Nu."), "key without a value"},
        {P2("]K\x01K\x02s."), "not a dict"},
        {P2("}(Ne."), "not a list"},
        {P2("(Ne."), "stack is empty"},
        {P2("((eN."), "stack is empty"},
        {P2("](Na."), "stack is empty"}, /* a mark is between */
        {P2("](R."), "stack is empty"},
        {P2(")R."), "stack is empty"}, /* one too few of what is taken */
        {P2(")\x81."), "stack is empty"},
        {P2("Nb."), "stack is empty"},
        {P4("\x8c\001a\x93."), "stack is empty"},
        {P2("Q."), "stack is empty"},
        {P2("q\x01N."), "stack is empty"},
        {P2("\x85."), "stack is empty"},
        {P2("N\x86."), "stack is empty"},
        {P2("NN\x87."), "stack is empty"},
        {P2("r\x01\0\0\0N."), "stack is empty"},
        {P4("\x94N."), "stack is empty"},
        {P2("]a."), "stack is empty"},
        {P2("}Ns."), "stack is empty"},
        {P2("](((eeee."), ""},
        {P2("\xff."), "opcode ? (0xff)"},
        {P2("I1\n."), "opcode INT"},
        {P4("\x8d\xff\xff\xff\xff\xff\xff\xff\377a."), "ends at byte"},
        {P4("\x8e\xff\xff\xff\xff\xff\xff\xff\177a."), "ends at byte"},
        {P2("X\xff\xff\xff\377a."), "ends at byte"},
        {P2("\x8a\xff\x01."), "ends at byte"},
        {P2("ctorch"), "ends at byte"},
        {BYTES(""), "ends at byte 0"},
        {BYTES("\x80"), "ends at byte 1"},
    };
    all_refused(rows, COUNT(rows));
}

TEST(limits)
{
    enum { N = PICKLE_MAX_MARKS + 10, LONG_NAME = 5000 };
    uint8_t *bytes = malloc(N + LONG_NAME);
    assert_non_null(bytes);
    memset(bytes, '(', N);
    memcpy(bytes, "\x80\x02", 2);
    refused((struct span){bytes, N}, "too many marks");
    memset(bytes, 'a', LONG_NAME);
    memcpy(bytes, "\x80\002c", 3);
    refused((struct span){bytes, LONG_NAME}, "name of more than 1000 bytes");
    free(bytes);
}

/* A pickle of at most n bytes: the beginning, one part again and again, the end. */
static struct span repeated(uint8_t *to, size_t n, struct span begin, struct span part,
                            const char *end)
{
    size_t at = begin.size, n_end = strlen(end);
    memcpy(to, begin.data, begin.size);
    for (; at + part.size + n_end <= n; at += part.size)
        memcpy(to + at, part.data, part.size);
    memcpy(to + at, end, n_end);
    return (struct span){to, at + n_end};
}

/* Numbers and texts that follow each other take next to nothing, others a word each; a list of one number
 * takes four and its own. A file that is too dense is refused. */
TEST(memory)
{
    enum { SIZE = 3 << 20, DENSE = 0 };
    const struct {
        struct span begin, part;
        const char *end;
        size_t most; /* words of the tree */
    } rows[] = {
        {P2("]("), BYTES("G\x3f\xe0\0\0\0\0\0\0"), "e.", 10},
        {P2("]("), BYTES("K\5q\1"), "e.", 10},
        {P4("("), BYTES("\x8c\003abc\x94"), "t.", 10},
        {P4("}("), BYTES("\x8c\003abc\x94K\5"), "u.", 10},
        {P2("Nq\0]("), BYTES("K\1h\0"), "e\x86.", SIZE / 2 + 10},
        {P2("]("), BYTES("]G\x3f\xe0\0\0\0\0\0\0a"), "e.", SIZE / 11 * 6 + 10},
        {P2("("), BYTES("](G\x3f\xe0\0\0\0\0\0\0K\1K\2K\3K\4e"), "t.", SIZE / 20 * 6 + 10},
        {P2("("), BYTES("N"), "t.", 10},
        {P2("("), BYTES("]"), "t.", DENSE},
        {P4("("), BYTES("}\x94"), "t.", DENSE},
        {P4("("), BYTES("N\x85"), "t.", DENSE},
    };
    uint8_t *bytes = malloc(SIZE);
    assert_non_null(bytes);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct span file = repeated(bytes, SIZE, rows[i].begin, rows[i].part, rows[i].end);
        if (rows[i].most == DENSE) {
            refused(file, "its values take more than 1782");
            continue;
        }
        struct pickle p = good(file);
        assert_in_range(arr_len(p.words), 1, rows[i].most);
        pickle_free(&p);
    }
    free(bytes);
}

/* One text, encoded by many calls, would be as many arrays. */
TEST(encoded_once)
{
    struct pickle p = good(P2("c_codecs\nencode\nq\0X\x05\0\0\0helloU\6latin1\x86R."));
    pickle_free(&p);
    uint8_t bytes[600];
    struct span begin = P2("c_codecs\nencode\nq\0X\x20\0\0\0"
                           "0123456789abcdef0123456789abcdefq\1(");
    refused(repeated(bytes, sizeof bytes, begin, BYTES("h\0h\1\x85R"), "t."),
            "texts that are encoded more than once");
}

/* Ten times the same list in a list, nine deep: small to read, a billion values to walk. */
TEST(shared)
{
    char bytes[400] = "\x80\x02(]q";
    size_t n = 6; /* with the index 0 */
    for (int depth = 1; depth <= 9; depth++) {
        bytes[n++] = ']';
        bytes[n++] = '(';
        for (int i = 0; i < 10; i++) {
            bytes[n++] = 'h';
            bytes[n++] = (char)(depth - 1);
        }
        bytes[n++] = 'e';
        bytes[n++] = 'q';
        bytes[n++] = (char)depth;
    }
    bytes[n++] = 't';
    bytes[n++] = '.';
    struct pickle p = good((struct span){(const uint8_t *)bytes, n});
    assert_int_equal(pickle_at(&p, pickle_item(&p, p.root, 9)).n, 10);
    assert_int_equal(arr_len(p.words), 10 * 2 + 9 * (2 + 10) + 1 + 10); /* lists, runs, the tuple */
    pickle_free(&p);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static const char *const samples[] = {"nanogpt/meta.pkl", "nanochat-2025/tokenizer/tokenizer.pkl",
                                      "microgpt/lists.pkl", "microgpt/arrays2.pkl",
                                      "microgpt/values.pkl"};

/* Cut off anywhere: refused, and the error says where the data end. Long samples in steps. */
TEST(truncated)
{
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct file f = torch_fixture(samples[i]);
        size_t step = f.size / 2000 + 1;
        for (size_t n = 0; n < f.size; n += step)
            refused((struct span){f.data, n}, "");
        file_close(&f);
    }
}

/* One byte changed: read or refused, but never a crash, and what was read can be walked. */
TEST(flipped)
{
    uint32_t random = 1;
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct file f = torch_fixture(samples[i]);
        struct span copy = exact_copy(span_of(&f));
        uint8_t *bytes = (uint8_t *)(uintptr_t)copy.data;
        for (int k = 0; k < 1500; k++) {
            struct pickle p;
            mgpt_error err;
            size_t at = next_random(&random) % copy.size;
            bytes[at] ^= (uint8_t)(1u << next_random(&random) % 8);
            if (pickle_read(&p, copy, &err) == MGPT_OK) {
                for (struct pickle_iter it = pickle_items(&p, p.root); pickle_next(&it);)
                    assert_non_null(pickle_kind_name(&p, it.value));
                pickle_free(&p);
            } else {
                assert_true(err.status == MGPT_EFILE && strlen(err.text) > 0);
            }
            bytes[at] = f.data[at];
        }
        free_copy(copy);
        file_close(&f);
    }
}
