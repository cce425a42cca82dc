/* Tools: the interpreter of chat templates: what Jinja writes (tests/vectors/jinja.py), which
 * characters are a message's, and what is refused by name. */
#include "base/mem.h"
#include "jinja/jinja.h"
#include "support/unit.h"

#include <jansson.h>
#include <time.h>

/* ---- against Jinja --------------------------------------------------------------------------- */

enum { MESSAGES_MOST = 8, FACTS_MOST = 8 };

static struct jinja_fact fact_of(const char *name, const json_t *v)
{
    struct jinja_fact f = {.name = name, .type = json_is_true(v) ? JINJA_TRUE : JINJA_FALSE};
    if (json_is_string(v))
        f = (struct jinja_fact){
            .name = name, .text = json_string_value(v), .n = json_string_length(v)};
    return f;
}

/* 1: the row's template writes the row's text, or both refuse. */
static int row_is_right(const json_t *row)
{
    struct jinja_message messages[MESSAGES_MOST];
    struct jinja_fact facts[FACTS_MOST];
    struct jinja_input input = {.messages = messages, .facts = facts};
    const json_t *template = json_array_get(row, 0), *list = json_array_get(row, 1);
    const json_t *expected = json_array_get(row, 4);
    struct jinja_output out = {NULL, NULL};
    const char *name;
    json_t *value;
    for (; input.n_messages < json_array_size(list); input.n_messages++) {
        const json_t *m = json_array_get(list, input.n_messages), *text = json_array_get(m, 1);
        assert_in_range(input.n_messages, 0, MESSAGES_MOST - 1);
        messages[input.n_messages] =
            (struct jinja_message){json_string_value(json_array_get(m, 0)), json_string_value(text),
                                   json_string_length(text)};
    }
    json_object_foreach(json_array_get(row, 3), name, value) facts[input.n_facts++] =
        fact_of(name, value);
    input.add_generation_prompt = json_is_true(json_array_get(row, 2));
    struct jinja *t = jinja_new(json_string_value(template), json_string_length(template), NULL);
    int status = t ? jinja_render(t, &input, &out, NULL) : MGPT_EFILE;
    int right = json_is_null(expected)
                    ? status == MGPT_EFILE
                    : status == MGPT_OK && arr_len(out.text) == json_string_length(expected) &&
                          memcmp(out.text ? out.text : "", json_string_value(expected),
                                 arr_len(out.text)) == 0;
    if (!right)
        print_message("%s\n  expected %s\n  found    %.*s\n", json_string_value(template),
                      json_is_null(expected) ? "an error" : json_string_value(expected),
                      (int)arr_len(out.text), out.text ? out.text : "");
    jinja_output_free(&out);
    jinja_free(t);
    return right;
}

TEST(as_jinja)
{
    char path[1024];
    int n_wrong = 0;
    snprintf(path, sizeof path, "%s/tests/vectors/jinja.json", getenv("MGPT_SOURCE_ROOT"));
    json_t *rows = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(rows);
    assert_in_range(json_array_size(rows), 250, 1000);
    for (size_t i = 0; i < json_array_size(rows); i++)
        n_wrong += !row_is_right(json_array_get(rows, i));
    json_decref(rows);
    assert_int_equal(n_wrong, 0);
}

/* ---- one template ---------------------------------------------------------------------------- */

static const struct jinja_message hello = {"user", "Hel\xFFlo\0!", 8};
static const struct jinja_input one = {.messages = &hello, .n_messages = 1};

static int run_template(const char *template, struct jinja_output *out, mgpt_error *err)
{
    struct jinja *t = jinja_new(template, strlen(template), err);
    *out = (struct jinja_output){NULL, NULL};
    int status = t ? jinja_render(t, &one, out, err) : MGPT_EFILE;
    jinja_free(t);
    return status;
}

/* Bytes that are not UTF-8, and NUL, are text like any other; what is made of a message's text is a
 * message's. */
TEST(typed)
{
    static const struct {
        const char *template, *text, *typed;
        size_t n;
    } rows[] = {
        {"a{{ messages[0].content }}b", "aHel\xFFlo\0!b", "\0\1\1\1\1\1\1\1\1\0", 10},
        {"{{ 'x' ~ messages[0].content[1:3]|upper ~ 'y' }}", "xELy", "\0\1\1\0", 4},
        {"{{ messages[0].content.replace('l', 'zz') }}", "Hezz\xFFzzo\0!", "\1\1\0\0\1\0\0\1\1\1",
         10},
        {"{{ messages[0].content[:4].split('e')|join('-') }}", "H-l\xFF", "\1\0\1\1", 4},
        {"{{ messages[0].content[6]|tojson }}", "\"\\u0000\"", "\0\1\1\1\1\1\1\0", 8},
        {"{{ messages[0].role }}", "user", "\0\0\0\0", 4},
        {"{% set x %}{{ messages[0].content[0] }}!{% endset %}{{ x }}", "H!", "\1\0", 2},
        {"{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(messages[0].content[0]) }}", "<H>", "\0\1\0",
         3},
        {"{{ messages[0].content.title()[0] }}{% for c in messages[0].content[:2] %}{{ c }},"
         "{% endfor %}",
         NULL, NULL, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct jinja_output out;
        int status = run_template(rows[i].template, &out, NULL);
        assert_int_equal(status, rows[i].text ? MGPT_OK : MGPT_EFILE);
        assert_int_equal(arr_len(out.text), rows[i].n);
        assert_int_equal(arr_len(out.typed), rows[i].n);
        if (rows[i].n > 0) {
            assert_memory_equal(out.text, rows[i].text, rows[i].n);
            assert_memory_equal(out.typed, rows[i].typed, rows[i].n);
        }
        jinja_output_free(&out);
    }
}

/* What Jinja has and mgpt does not is refused with its name and line, and so is what does not
 * end. */
TEST(refused)
{
    static const struct {
        const char *template, *text;
    } rows[] = {
        {"\n{% include 'x' %}", "line 2: the tag 'include', which mgpt does not know"},
        {"{% raw %}{% endraw %}", "line 1: the tag 'raw'"},
        {"{% extends 'x' %}", "the tag 'extends'"},
        {"{% call f() %}a{% endcall %}", "the tag 'call'"},
        {"a\n\n{{ 'a'|wordwrap }}", "line 3: the filter 'wordwrap', which mgpt does not know"},
        {"{{ 'a'|trim(side=1) }}", "an argument that the filter does not have"},
        {"{{ 1 is divisibleby 2 }}", "the test 'divisibleby'"},
        {"{{ 'a'.rsplit('b') }}", "the method 'rsplit' of text"},
        {"{{ 'a'.rsplit }}", "the method 'rsplit' is not called"},
        {"{{ {}.pop(1) }}", "the method 'pop' of a dict"},
        {"{{ [].append(1) }}", "the method 'append' of a list"},
        {"{{ messages.__class__.x }}", "'__class__' is undefined"},
        {"{{ loop.x }}", "'loop' is undefined"},
        {"{% for x in 'a' %}{{ loop.changed(1) }}{% endfor %}", "the method 'changed' of a loop"},
        {"{{ 1.5 }}", "a real number"},
        {"{{ 1 / 2 }}", "an operator between"},
        {"{{ 2 ** 2 }}", "'**' does not belong there"},
        {"{{ -3 // 2 }}", "a number that mgpt does not compute"},
        {"{{ 999999999999999 * 999999999999999 }}", "a number that mgpt does not compute"},
        {"{{ 99999999999999999999 }}", "a number of a kind that mgpt does not read"},
        {"{{ 'a' % 1 }}", "an operator between"},
        {"{{ ['a'] }}", "a list is printed as text"},
        {"{{ messages }}", "a list is printed as text"},
        {"{{ 'a'|safe ~ 'b' }}", "text marked as safe"},
        {"{{ '\xC3\xA9'|upper }}", "upper and lower case of letters that are not ASCII"},
        {"{% set x = [1]|map('string') %}", "a generator is kept in a variable"},
        {"{{ [1]|map('string')|length }}", "the length of a generator"},
        {"{{ raise_exception('no\\n') }}", "line 1: the template says: no?"},
        {"{{ f() }}", "'f' is called, which mgpt does not know"},
        {"{{ lipsum() }}", "'lipsum' is called"},
        {"{{ f(*[1]) }}", "a call with *"},
        {"{{ strftime_now('%H:%M %-Z') }}", "strftime_now without a short format that"},
        {"{{ strftime_now('%%%f') }}", "strftime_now without a short format that"},
        {"{{ 'a'.startswith('a', 1) }}", "the method 'startswith' of text, or this use of it"},
        {"{{ 'a'.split('a', none) }}", "none is a count"},
        {"{{ strftime_now() }}", "strftime_now without a short format"},
        {"{{ range(99999999) }}", "a range that mgpt does not make"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deep"},
        {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
         "line 1: the template"},
        {"{% set ns = namespace(s='0123456789') %}{% for i in range(99) %}"
         "{% set ns.s = ns.s + ns.s %}{% endfor %}",
         "line 1: the template"},
        {"{{ '\\N{DASH}' }}", "a string with an escape that mgpt does not read"},
        {"{{ a ? b }}", "a character that does not belong there"},
        {"{{ (a] }}", "a bracket that closes nothing"},
        {"\xFF", "the template is not UTF-8 text"},
        {"{{ {} == {'a': 1} }}", "two dicts are compared"},
        {"{{ [1]['a':] }}", "a slice by text"},
        {"{{ [1][::'a'] }}", "a slice by text"},
        {"{{ {}[1:] }}", "a slice of a dict"},
        {"{{ '\\uD800' }}", "a string with an escape that mgpt does not read"},
        {"{{ '\\U00110000' }}", "a string with an escape that mgpt does not read"},
        {"{{ '\\101' }}", "a string with an escape that mgpt does not read"},
        {"{{ f(**{}) }}", "a call with *"},
        {"{{ dict(a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1,r=1,s=1,t=1,"
         "u=1,v=1,w=1,x=1,y=1) }}",
         "a call with more than 24 arguments"},
        {"{% for a, b, c, d, e, f, g, h, i in [] %}{% endfor %}", "does not belong there"},
        {"{{ ['a']|join(',', attribute='b') }}", "join by an attribute"},
        {"{{ {}|tojson(separators=[',']) }}", "tojson with options"},
        {"{{ {}|tojson(sort_keys=true) }}", "tojson with options"},
        {"{{ {}|tojson(indent='a') }}", "tojson with options"},
        {"{{ {}|tojson(indent=-1) }}", "tojson with options"},
        {"{{ {}|tojson(indent=65) }}", "tojson with options"},
        {"{{ '1a'|int }}", "text is made a number"},
        {"{{ '1.5'|int }}", "text is made a number"},
        {"{{ ''|int }}", "text is made a number"},
        {"{{ '1234567890123456'|int }}", "text is made a number"},
        {"{{ none|int }}", "is made a number"},
        {"{{ messages|map(attribute='a.b')|list|length }}", "an attribute with dots or digits"},
        {"{{ messages|map(attribute='a0')|list|length }}", "an attribute with dots or digits"},
        {"{{ messages|map(attribute=1)|list|length }}", "an attribute that is a number"},
        {"{{ messages|map(attribute='a', default='b')|list|length }}", "map with arguments"},
        {"{{ messages|selectattr(attr='role')|list|length }}", "selectattr without an attribute"},
        {"{{ 'a'|safe|upper }}", "text marked as safe is changed"},
        {"{{ ['a'|safe]|join }}", "text marked as safe is joined"},
        {"{{ '{}'.format('a'|safe) }}", "text marked as safe in format()"},
        {"{{ ('a'|safe).format() }}", "text marked as safe in format()"},
        {"{{ 'a' + ('b'|safe) }}", "text marked as safe"},
        {"{{ {}.keys }}", "the method 'keys' is not called"},
        {"{{ {}['keys'] }}", "the method 'keys' is not called"},
        {"{{ {}.get(key=1) }}", "the method 'get' of a dict"},
        {"{{ {}.items(1) }}", "the method 'items' of a dict"},
        {"{% for x in 'a' %}{{ loop.x }}{% endfor %}", "'x' of a loop"},
        {"{% for x in 'a' %}{{ loop.cycle(a=1) }}{% endfor %}", "the method 'cycle' of a loop"},
        {"{{ 'a'.split(sep='b') }}", "the method 'split' of text, or this use"},
        {"{{ 'a'.find('b', 1) }}", "the method 'find' of text, or this use"},
        {"{{ 'a'.replace('', 'b') }}", "a replacement that mgpt does not do"},
        {"{{ 'a' < 'b' }}", "an order of text and text"},
        {"{{ strftime_now('0123456789012345678901234567890123456789012345678901234567890123') }}",
         "strftime_now without a short format"},
        {"{{ range(stop=1) }}", "a range that mgpt does not make"},
        {"{{ range(-1000001, 0) }}", "a range that mgpt does not make"},
        {"{{ {'a': 1} == {'a': 1} }}", "two dicts are compared"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct jinja_output out;
        mgpt_error err = {0};
        int status = run_template(rows[i].template, &out, &err);
        if (status != MGPT_EFILE || !strstr(err.text, rows[i].text))
            fail_msg("%s: expected '%s', found '%s'", rows[i].template, rows[i].text, err.text);
        assert_int_equal(arr_len(out.text), 0);
    }
}

/* Nesting is bounded where the template is read, too. */
TEST(nesting)
{
    static const char *const parts[] = {"{{ ", "(", "[", "not ", "- ", "{% if 1 %}"};
    for (size_t i = 1; i < COUNT(parts); i++) {
        char *text = NULL;
        mgpt_error err = {0};
        if (i < 5)
            assert_true(arr_append(&text, parts[0], 3));
        for (size_t k = 0; k < 100000; k++)
            assert_true(arr_append(&text, parts[i], strlen(parts[i])));
        struct jinja *t = jinja_new(text, arr_len(text), &err);
        assert_null(t);
        assert_int_equal(err.status, MGPT_EFILE);
        arr_free(text);
    }
}

/* The date is today's. */
TEST(date)
{
    char year[8];
    time_t now = time(NULL);
    struct jinja_output out;
    assert_true(strftime(year, sizeof year, "%Y", localtime(&now)) == 4);
    assert_int_equal(run_template("{{ strftime_now('%Y') }}", &out, NULL), MGPT_OK);
    assert_memory_equal(out.text, year, 4);
    jinja_output_free(&out);
}

TEST(variables_read)
{
    static const char text[] = "{% if a is defined %}{{ m.b }}{{ 'c' }}{% endif %} d{{ (e) }}";
    struct jinja *t = jinja_new(text, sizeof text - 1, NULL);
    assert_non_null(t);
    assert_int_equal(jinja_reads(t, "a"), 1);
    assert_int_equal(jinja_reads(t, "b"), 0);
    assert_int_equal(jinja_reads(t, "c"), 0);
    assert_int_equal(jinja_reads(t, "d"), 0);
    assert_int_equal(jinja_reads(t, "e"), 1);
    jinja_free(t);
}
