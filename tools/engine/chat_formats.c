/* The chat formats with names, as templates. See chat.h. */
#include "engine/chat_formats.h"

#include <string.h>

/* A template whose turns are all written the same way; `prompt` begins an answer. */
#define TURNS(turn, prompt)                                                                        \
    "{{ bos_token }}{% for m in messages %}{{ " turn " }}{% endfor %}"                             \
    "{% if add_generation_prompt %}{{ '" prompt "' }}{% endif %}"

/* The system's text is put before the user's first text. */
#define IN_FRONT(system, user, answer, prompt)                                                     \
    "{{ bos_token }}{% set ns = namespace(front = '') %}{% for m in messages %}"                   \
    "{% if m.role == 'system' %}{% set ns.front = " system " %}"                                   \
    "{% elif m.role == 'user' %}{% set text = ns.front + m.content %}{{ " user " }}"               \
    "{% set ns.front = '' %}{% else %}{{ " answer " }}{% endif %}{% endfor %}"                     \
    "{% if add_generation_prompt %}{{ '" prompt "' }}{% endif %}"

static const struct chat_format formats[] = {
    {"chatml",
     TURNS("'<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n'",
           "<|im_start|>assistant\\n"),
     {"<|im_start|>", "<|im_end|>"},
     1},
    {"llama3",
     TURNS("'<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content|trim + "
           "'<|eot_id|>'",
           "<|start_header_id|>assistant<|end_header_id|>\\n\\n"),
     {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     1},
    {"gemma",
     IN_FRONT("m.content|trim + '\\n\\n'",
              "'<start_of_turn>user\\n' + text|trim + '<end_of_turn>\\n'",
              "'<start_of_turn>model\\n' + m.content|trim + '<end_of_turn>\\n'",
              "<start_of_turn>model\\n"),
     {"<start_of_turn>", "<end_of_turn>"},
     1},
    /* Phi-3's tokens include the line ends after them. */
    {"phi-3",
     TURNS("'<|' + m.role + '|>' + m.content|trim + '<|end|>'", "<|assistant|>"),
     {"<|user|>", "<|assistant|>", "<|end|>"},
     1},
    {"zephyr",
     TURNS("'<|' + m.role + '|>\\n' + m.content + '</s>\\n'", "<|assistant|>\\n"),
     {"</s>"},
     0},
    {"llama2",
     IN_FRONT("'<<SYS>>\\n' + m.content|trim + '\\n<</SYS>>\\n\\n'",
              "'[INST] ' + text|trim + ' [/INST]'", "m.content|trim + '</s>' + bos_token", ""),
     {"</s>"},
     0},
    {"nanochat",
     IN_FRONT("m.content + '\\n\\n'", "'<|user_start|>' + text + '<|user_end|>'",
              "'<|assistant_start|>' + m.content + '<|assistant_end|>'", "<|assistant_start|>"),
     {"<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"},
     1},
};

enum { N_FORMATS = sizeof formats / sizeof *formats };

const char *chat_format_names(void)
{
    return "chatml, llama3, gemma, phi-3, zephyr, llama2, nanochat";
}

const struct chat_format *chat_format_at(size_t i)
{
    return i < N_FORMATS ? &formats[i] : NULL;
}

const struct chat_format *chat_format_named(const char *name)
{
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}
