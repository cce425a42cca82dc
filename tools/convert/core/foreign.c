/* Files that are not checkpoints that mgpt reads, by name: what a file is helps more than its bytes.
 * See readers.h. */
#include "base/error.h"
#include "convert/core/readers.h"

#include <string.h>

#define CONVERT "; convert the model's PyTorch, safetensors or GGUF form"
#define KERAS "; with KerasHub: model.load_weights(FILE); model.export_to_transformers(DIR)"
#define UNPACK ": unpack it and name the checkpoint in it"

static const struct {
    size_t at;
    const char *magic;
    size_t n;
    const char *what;
} magics[] = {
#define MAGIC(at, bytes, what)                                                                     \
    {                                                                                              \
        at, bytes, sizeof(bytes) - 1, what                                                         \
    }
    MAGIC(0, "\x89HDF\r\n\x1a\n", "HDF5, as Keras writes it (.h5)" KERAS),
    MAGIC(4, "TFL3", "TensorFlow Lite" CONVERT),
    MAGIC(0, "version https://git-lfs",
          "a pointer of Git LFS, not the file itself: git lfs pull "
          "brings it"),
    MAGIC(0, "mgptsess", "a session of mgpt generate; --session takes it"),
    MAGIC(0, "<!DOCTYPE", "a web page, not the file itself: download the file"),
    MAGIC(0, "<!doctype", "a web page, not the file itself: download the file"),
    MAGIC(0, "<html", "a web page, not the file itself: download the file"),
    MAGIC(0, "<?xml", "XML, as OpenVINO writes it" CONVERT),
    MAGIC(0, "lmgg", "ggml, older than GGUF; convert the model's original form"),
    MAGIC(0, "fmgg", "ggmf, older than GGUF; convert the model's original form"),
    MAGIC(0, "tjgg", "ggjt, older than GGUF; convert the model's original form"),
    MAGIC(0, "PAR1", "Parquet, which holds data, not models"),
    MAGIC(0, "\x1f\x8b", "gzip" UNPACK),
    MAGIC(0, "BZh", "bzip2" UNPACK),
    MAGIC(0,
          "\xfd"
          "7zXZ",
          "xz" UNPACK),
    MAGIC(0, "\x28\xb5\x2f\xfd", "zstd" UNPACK),
    MAGIC(0, "7z\xbc\xaf", "7z" UNPACK),
    MAGIC(257, "ustar", "a tar archive" UNPACK),
    MAGIC(0, "\xc8\xd7\x34\x01", "llm.c's tokenizer; name the model's .bin"),
    MAGIC(0, "\x88\xd8\x34\x01", "llm.c's tokens of a text; name the model's .bin"),
    MAGIC(0, "\xa1\xd9\x34\x01", "llm.c's tokens of a text; name the model's .bin"),
    MAGIC(0, "\xc7\xd7\x34\x01", "llm.c's debug state; name the model's .bin"),
    MAGIC(0, "\x8f\xd8\x34\x01", "llm.c's state of the optimizer; name the model's .bin"),
    MAGIC(0, "\xa3\xd9\x34\x01", "llm.c's Llama 3; convert the model's Hugging Face form"),
#undef MAGIC
};

static int has_near_end(struct span b, const char *text)
{
    size_t n = strlen(text), from = b.size > 65536 ? b.size - 65536 : 0;
    for (size_t i = from; i + n <= b.size; i++)
        if (memcmp(b.data + i, text, n) == 0)
            return 1;
    return 0;
}

static int is_text(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] < 32 || p[i] > 126)
            return 0;
    return n > 0;
}

/* Protobufs begin with their first field: ONNX with the version of the format and the producer's
 * name, SavedModel with version 1 and a message. */
static const char *protobuf(struct span b)
{
    if (b.size < 64 || b.data[0] != 0x08 || b.data[1] > 16 || b.data[2] != 0x12)
        return NULL;
    size_t n = b.data[3];
    if (n < 32 && is_text(b.data + 4, n) && (b.data[4 + n] & 7) == 2)
        return "ONNX" CONVERT " that it was exported from";
    return b.data[1] == 1 ? "TensorFlow's SavedModel" CONVERT : NULL;
}

/* A map of at most 15 entries whose first key is a short word. It is no pickle: there a protocol
 * below 6 follows 0x80. */
static int is_msgpack(struct span b)
{
    return b.size >= 64 && b.data[0] > 0x80 && b.data[0] < 0x90 && b.data[1] >> 5 == 5 &&
           is_text(b.data + 2, b.data[1] & 31U);
}

/* The index of a TensorFlow checkpoint is a LevelDB table, which ends in this magic number. */
static int is_sorted_table(struct span b)
{
    static const uint8_t end[] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};
    return b.size >= 48 && memcmp(b.data + b.size - sizeof end, end, sizeof end) == 0;
}

const char *ckpt_foreign(struct span b)
{
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (b.size >= magics[i].at + magics[i].n &&
            memcmp(b.data + magics[i].at, magics[i].magic, magics[i].n) == 0)
            return magics[i].what;
    if (b.size > 4 && memcmp(b.data, "PK\3\4", 4) == 0 && has_near_end(b, "model.weights.h5"))
        return "Keras (.keras)" KERAS;
    if (is_msgpack(b))
        return FOREIGN_FLAX;
    return is_sorted_table(b) ? FOREIGN_TENSORFLOW : protobuf(b);
}
