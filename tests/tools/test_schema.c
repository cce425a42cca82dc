/* JSON schemas as expressions: documents that can be drawn, and that cannot. */
#include "base/mem.h"
#include "choose/pattern.h"
#include "choose/schema.h"
#include "support/unit.h"

static int matches(const char *pattern, const char *text)
{
    struct pattern p;
    struct automaton a = {.pass = 0};
    mgpt_error err;
    int32_t state = 0;
    if (pattern_parse(&p, pattern, strlen(pattern), &err) < 0)
        fail_msg("%s: %s", pattern, err.text);
    assert_int_equal(automaton_open(&a, &p, &err), MGPT_OK);
    for (; *text && state >= 0; text++)
        state = automaton_byte(&a, state, (unsigned char)*text);
    int found = state >= 0 && a.states[state].accepts;
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
