/* JSON schemas as expressions: documents that can be drawn, and that cannot. */
#include "base/mem.h"
#include "choose/pattern.h"
#include "choose/schema.h"
#include "support/unit.h"

static void open_pattern(struct automaton *a, struct pattern *p, const char *pattern)
{
    mgpt_error err;
    if (pattern_parse(p, pattern, strlen(pattern), &err) < 0)
        fail_msg("%s: %s", pattern, err.text);
    assert_int_equal(automaton_open(a, p, &err), MGPT_OK);
}

static int accepts(struct automaton *a, const char *text)
{
    int32_t state = 0;
    for (; *text && state >= 0; text++)
        state = automaton_byte(a, state, (unsigned char)*text);
    return state >= 0 && a->states[state].accepts;
}

static int matches(const char *pattern, const char *text)
{
    struct pattern p;
    struct automaton a = {.pass = 0};
    open_pattern(&a, &p, pattern);
    int found = accepts(&a, text);
    automaton_close(&a);
    pattern_free(&p);
    return found;
}

/* Documents after the schema: those that can be drawn, then those that cannot. */
static const struct {
    const char *schema, *drawn[5], *other[6];
} documents[] = {
    {"{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}",
     {"\"a\"", "\"\\\"\xc3\xa9\"", "\"\\\\\\n\""},
     {"\"\"", "\"abc\"", "\"\"\"", "\"\n\"", "\"\\a\"", "\"\\\""}},
    {"{\"type\":\"string\",\"pattern\":\"[\\\"b]$\"}",
     {"\"\\\"\"", "\"b\"", "\"b\\tb\""},
     {"\"\"", "\"\"\"", "\"ba\"", "b"}},
    {"{\"type\":\"string\",\"pattern\":\"^[^\\\\s]\\\\.\"}",
     {"\"a.\"", "\"..x\""},
     {"\"\xc2\xa0.\"", "\" .\"", "\"ab\"", "\"xa.\""}},
    {"{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":105}",
     {"-12", "0", "-9", "104", "99"},
     {"-13", "105", "-0", "00", "1.0", "110"}},
    {"{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":3007}",
     {"1", "3007", "999", "2999", "1000"},
     {"0", "3008", "3010", "4000", "-1", "10000"}},
    {"{\"type\":\"integer\"}", {"-999999999999999", "0", "12"}, {"1000000000000000", "", "-"}},
    {"{\"type\":[\"number\",\"null\"]}", {"0.50", "-1e-9", "null", "10"}, {"01", ".5", "1.", "e5"}},
    {"{\"type\":\"array\",\"items\":{\"const\":1},\"minItems\":1,\"maxItems\":3}",
     {"[1]", "[1,1, 1]"},
     {"[]", "[1,1,1,1]", "[1 ,1]", "[1,]", "[,1]"}},
    {"{\"enum\":[0.1,1e300,0.30000000000000004]}",
     {"0.1", "1e+300", "0.30000000000000004"},
     {"0.10000000000000001"}},
    {"{\"enum\":[12345678901234567890,-9223372036854775809]}",
     {"12345678901234567890", "-9223372036854775809"},
     {"1.2345678901234567e+19", "12345678901234567168"}},
    {"{\"type\":\"array\",\"items\":{\"const\":1}}", {"[]", "[1,1,1,1]"}, {"[2]"}},
    /* one keyword tells the type */
    {"{\"maxLength\":1}", {"\"\"", "\"a\""}, {"\"ab\"", "1", "null"}},
    {"{\"minLength\":2}", {"\"ab\""}, {"\"a\"", "12", "{}"}},
    {"{\"pattern\":\"^a$\"}", {"\"a\""}, {"\"b\"", "1", "[]"}},
    {"{\"items\":{\"const\":1}}", {"[]", "[1,1]"}, {"[2]", "1", "{}"}},
    {"{\"prefixItems\":[{\"const\":1}]}", {"[1]"}, {"[2]", "1", "{}"}},
    {"{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]}",
     {"{\"a\":1}"},
     {"{\"a\":2}", "1", "[]"}},
    {"{\"type\":\"integer\",\"minimum\":5,\"exclusiveMinimum\":2,\"maximum\":7,"
     "\"exclusiveMaximum\":9}",
     {"5", "7"},
     {"3", "4", "8"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":-2.5,\"exclusiveMaximum\":3.5}",
     {"-2", "3", "0"},
     {"-3", "4"}},
    {"{\"type\":\"string\",\"pattern\":\"^[a|)]$\"}", {"\"|\"", "\"a\"", "\")\""}, {"\"a|\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\W\\\\D[^\\\\w][^\\\\d]$\"}",
     {"\"-a-\xc3\xa7\""},
     {"\"\xc3\xa7"
      "a-a\"",
      "\"-\xd9\xa3-a\"",
      "\"-a\xc3\xa7"
      "a\"",
      "\"-a-\xd9\xa3\""}},
    {"{\"const\":\"\\u001f\"}", {"\"\\u001f\""}, {"\"\x1f\""}},
    {"{\"type\":\"number\",\"enum\":[1,0.5,\"x\",null]}", {"1", "0.5"}, {"\"x\"", "null"}},
    {"{\"prefixItems\":[{\"const\":1},{\"type\":\"boolean\"}]}",
     {"[1,true]"},
     {"[1]", "[1,true,2]"}},
    {"{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}},"
     "\"required\":[\"b\"]}",
     {"{\"b\":2}", "{\"a\": 1, \"b\": 2}", "{\"b\":2,\"c\":3}", "{\"a\":1,\"b\":2,\"c\":3}"},
     {"{}", "{\"a\":1}", "{\"b\":2,\"a\":1}", "{,\"b\":2}", "{\"b\":2,}", "{\"b\":3}"}},
    {"{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2}}}",
     {"{}", "{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}"},
     {"{\"b\":2,\"a\":1}", "{\"c\":1}"}},
    {"{\"type\":\"object\"}", {"{}"}, {"{\"a\":1}"}},
    {"{\"enum\":[1.5,\"x.\",{\"k\":[true,null]},\"\\u0001\"],\"type\":[\"string\",\"object\"]}",
     {"\"x.\"", "{\"k\": [true,null]}", "\"\\u0001\""},
     {"1.5", "\"xy\"", "1x5"}},
    {"{\"type\":\"string\",\"pattern\":\"^(a|b)$\"}", {"\"a\"", "\"b\""}, {"\"ab\"", "\"c\""}},
    {"{\"type\":\"string\",\"pattern\":\"^a\\\\|b$\"}", {"\"a|b\""}, {"\"a\"", "\"b\""}},
    {"{\"type\":\"string\",\"pattern\":\"a\\\\$\"}", {"\"a$\"", "\"xa$b\""}, {"\"a\"", "\"xa\""}},
    {"{\"$ref\":\"#/$defs/a~0b~2\",\"$defs\":{\"a~b~2\":{\"type\":\"null\"}}}", {"null"}, {"1"}},
    {"{\"anyOf\":[{\"$ref\":\"#/$defs/a~1b\"},{\"type\":\"null\"}],\"$defs\":{\"a/"
     "b\":{\"format\":\"date\",\"type\":\"string\"}}}",
     {"\"2024-02-28\"", "null", "\"1999-12-31\""},
     {"\"2024-02-30\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"2024-1-01\""}},
};

TEST(documents_of_schemas)
{
    for (size_t i = 0; i < COUNT(documents); i++) {
        char *pattern;
        mgpt_error err;
        if (schema_pattern(documents[i].schema, strlen(documents[i].schema), &pattern, &err) < 0)
            fail_msg("%s: %s", documents[i].schema, err.text);
        for (size_t k = 0; k < COUNT(documents[i].drawn) && documents[i].drawn[k]; k++)
            if (!matches(pattern, documents[i].drawn[k]))
                fail_msg("%s: '%s' cannot be drawn", documents[i].schema, documents[i].drawn[k]);
        for (size_t k = 0; k < COUNT(documents[i].other) && documents[i].other[k]; k++)
            if (matches(pattern, documents[i].other[k]))
                fail_msg("%s: '%s' can be drawn", documents[i].schema, documents[i].other[k]);
        arr_free(pattern);
    }
}

static void check_range(long low, long high)
{
    char schema[100], text[16], *pattern;
    struct pattern p;
    struct automaton a = {.pass = 0};
    mgpt_error err;
    snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%ld,\"maximum\":%ld}", low,
             high);
    assert_int_equal(schema_pattern(schema, strlen(schema), &pattern, &err), MGPT_OK);
    open_pattern(&a, &p, pattern);
    for (long i = -1300; i <= 1300; i++) {
        snprintf(text, sizeof text, "%ld", i);
        if (accepts(&a, text) != (i >= low && i <= high))
            fail_msg("%s: %ld", schema, i);
    }
    automaton_close(&a);
    pattern_free(&p);
    arr_free(pattern);
}

/* Each number of up to four digits, for bounds with every kind of first and last digits. */
TEST(whole_numbers_of_ranges)
{
    static const long bounds[] = {-1203, -1000, -999, -240, -100, -99,  -42,  -17, -10, -9,
                                  -1,    0,     1,    7,    9,    10,   11,   19,  20,  42,
                                  90,    99,    100,  101,  109,  110,  199,  200, 456, 459,
                                  499,   500,   990,  999,  1000, 1001, 1099, 1234};
    for (size_t i = 0; i < COUNT(bounds); i++)
        for (size_t j = i; j < COUNT(bounds); j++)
            check_range(bounds[i], bounds[j]);
}
