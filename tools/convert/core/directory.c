/* Which file of a directory the user means, and directories that are refused by name. See source.h.
 *
 * Directories of Hugging Face, Meta and LitGPT are known by their files; in any other a single file
 * that looks like weights is the one.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/core/source.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MAX_NAMES = 65536, MAX_NAME = 255 };

struct listing {
    DIR *folder;
    char (*names)[MAX_NAME + 1]; /* stb_ds array */
};

static void close_listing(void *arg)
{
    struct listing *l = arg;
    arr_free(l->names);
    if (l->folder)
        closedir(l->folder);
}

/* The names are there until the run ends. */
static struct listing *listing_read(struct checkpoint *c, const char *path)
{
    struct listing *l = ckpt_new(c, 1, sizeof *l);
    ckpt_own(c, l, close_listing);
    l->folder = opendir(path);
    ckpt_pushed(c, l->folder || errno != ENOMEM, sizeof *l->names);
    if (!l->folder)
        ckpt_leave(c, err_set(c->err, MGPT_EIO, MGPT_NO_OFFSET, "cannot be listed"));
    for (struct dirent *e; (e = readdir(l->folder));) {
        size_t n = strlen(e->d_name);
        if (n > MAX_NAME || arr_len(l->names) == MAX_NAMES)
            continue;
        ckpt_pushed(c, arr_reserve(l->names, arr_len(l->names) + 1), sizeof *l->names);
        arr_set_len(l->names, arr_len(l->names) + 1);
        memcpy(l->names[arr_len(l->names) - 1], e->d_name, n + 1);
    }
    closedir(l->folder);
    l->folder = NULL;
    return l;
}

/* Whether there is a file of this name; "*.index": of any that ends so. */
static int listing_has(const struct listing *l, const char *pattern)
{
    for (size_t i = 0; i < arr_len(l->names); i++)
        if (fnmatch(pattern, l->names[i], 0) == 0)
            return 1;
    return 0;
}

/* ---- refused --------------------------------------------------------------------------------- */

#define JAX "an orbax checkpoint (JAX); export the model to safetensors"
#define TENSORFLOW "; convert the model's PyTorch or safetensors form"

static const struct {
    const char *file, *also, *what; /* also: NULL, or another that must be there */
} refused[] = {
    {"consolidated.01.pth", "consolidated.00.pth",
     "Meta's model in several parts; convert its Hugging Face form"},
    {"_CHECKPOINT_METADATA", NULL, JAX},
    {"manifest.ocdbt", NULL, JAX},
    {"_METADATA", NULL, JAX},
    {"saved_model.pb", NULL, "TensorFlow's SavedModel" TENSORFLOW},
    {"*.index", "*.data-00000-of-*", FOREIGN_TENSORFLOW},
    {"flax_model.msgpack*", NULL, "a model with " FOREIGN_FLAX},
    {".metadata", "*.distcp",
     "a distributed checkpoint of PyTorch; one file of it: python -m "
     "torch.distributed.checkpoint.format_utils dcp_to_torch DIR out.pt"},
    {"zero_to_fp32.py", NULL, "a DeepSpeed checkpoint; its zero_to_fp32.py makes one file of it"},
    {"latest_checkpointed_iteration.txt", NULL,
     "a Megatron checkpoint; convert its Hugging Face form"},
    {"adapter_config.json", NULL,
     "an adapter (LoRA), not a model; name its model, and this with --lora"},
    {"tf_model.h5", NULL,
     "a model with TensorFlow's weights only; with transformers 4: "
     "AutoModelForCausalLM.from_pretrained(DIR, from_tf=True).save_pretrained(OUT)"},
};

static const char *refusal(const struct listing *l)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (listing_has(l, refused[i].file) &&
            (!refused[i].also || listing_has(l, refused[i].also)))
            return refused[i].what;
    return NULL;
}

/* ---- chosen ---------------------------------------------------------------------------------- */

static int has_hf_weights(const struct listing *l)
{
    return listing_has(l, "model.safetensors") || listing_has(l, "model.safetensors.index.json") ||
           listing_has(l, "pytorch_model.bin") || listing_has(l, "pytorch_model.bin.index.json");
}

/* 1: by its ending weights; 2: perhaps, when nothing else is; 0: one of the files that trainers and
 * tokenizers put next to weights, or anything else. */
static int weights_rank(const char *name)
{
    static const char *const ends[] = {".gguf", ".safetensors", ".pt", ".pth", ".ckpt", ".bin"};
    static const char *const perhaps[] = {".pkl",   ".npz",     ".onnx",   ".h5",
                                          ".keras", ".msgpack", ".tflite", ".index"};
    static const char *const others[] = {"tok",    "optim", "training_args", "scheduler",
                                         "rng_",   "meta.", "vocab",         "scaler",
                                         "state.", "ref.",  "gpt2_tokenizer"};
    const char *dot = strrchr(name, '.');
    if (gguf_named_parts(name) > 1 && !strstr(name, "-00001-of-"))
        return 0; /* the first part is the model */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return 0;
    for (size_t i = 0; dot && dot > name && i < sizeof ends / sizeof *ends; i++)
        if (strcasecmp(dot, ends[i]) == 0)
            return 1;
    for (size_t i = 0; dot && dot > name && i < sizeof perhaps / sizeof *perhaps; i++)
        if (strcasecmp(dot, perhaps[i]) == 0)
            return 2;
    return 0;
}

/* The first two of this rank by name: readdir has no order. */
static void first_two(const struct listing *l, int rank, const char *two[2])
{
    two[0] = two[1] = NULL;
    for (size_t i = 0; i < arr_len(l->names); i++) {
        const char *name = l->names[i];
        if (weights_rank(name) != rank)
            continue;
        if (!two[0] || strcmp(name, two[0]) < 0) {
            two[1] = two[0];
            two[0] = name;
        } else if (!two[1] || strcmp(name, two[1]) < 0) {
            two[1] = name;
        }
    }
}

static const char *only_weights(struct checkpoint *c, const struct listing *l)
{
    const char *two[2];
    first_two(l, 1, two);
    if (!two[0])
        first_two(l, 2, two);
    if (two[1])
        ckpt_stop(c, "is a directory of several models (%.40s, %.40s): name one", two[0], two[1]);
    if (!two[0])
        ckpt_leave(c, err_set(c->err, MGPT_EIO, MGPT_NO_OFFSET,
                              "is a directory without config.json: name the file that has the "
                              "weights"));
    return two[0];
}

static const char *directory_choose(struct checkpoint *c, const struct listing *l)
{
    static const char config[] = "config.json";
    static const char *const known[] = {"lit_model.pth", "consolidated.00.pth", "weights.npz"};
    if (listing_has(l, config) && has_hf_weights(l))
        return config;
    const char *what = refusal(l);
    if (what)
        ckpt_stop(c, "is %s", what);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (listing_has(l, known[i]))
            return known[i];
    return listing_has(l, config) ? config : only_weights(c, l);
}

const char *source_of_directory(struct checkpoint *c, const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return NULL;
    const char *file = directory_choose(c, listing_read(c, path));
    size_t n = strlen(path) + strlen(file) + 2;
    char *to = ckpt_new(c, n, 1);
    snprintf(to, n, "%s/%s", path, file);
    return to;
}
