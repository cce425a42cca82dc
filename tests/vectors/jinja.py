#!/usr/bin/env python3
"""Writes jinja.json: what Jinja writes for templates of ours, as transformers calls it.

    jinja.py >jinja.json        (needs transformers and jinja2: ../golden/README.md; made with jinja2 3.1.6, transformers 5.24)

A row is [template, messages as [role, content], add_generation_prompt, variables, text, or null where Jinja refuses].
tests/tools/test_jinja.c compares. The templates are written here: each format has the pieces, the order and the traps
that the published ones have.
"""
import json
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

SPACES = [chr(c) for c in range(0x3001) if chr(c).isspace() and chr(c) not in '\r\n']
TALK = [['user', 'Hi there'], ['assistant', 'ok'], ['user', '  Why "<b>"?\n\n'],
        ['assistant', '<think>\nhm\n</think>\n\nSo. '], ['user', 'Thanks \u00e9\u4e2d']]

# ---- the language: white space, scopes, operators, filters, tests; one line of text each --------------------------------
LANGUAGE = [
    # white space control
    'a\n  {% if true %}\n b\n  {% endif %}\n c\n', 'a  {%- if true -%}  b  {%- endif -%}  c', 'a {%+ if true %} b{% endif %}\n\nc',
    '  {# note #}\n x {#- y -#}  z{# a\nb #}\n!', '\n\n{{ "x" }}\n\n', '{{ "x" }}\r\n{{ "y" }}\r\n', 'x\n', 'x\n\n', 'x {{- " y " -}} z',
    ' {% if true %}a{% endif %} {% if true %}b{% endif %}\n', 'a{% if true +%}\nb{% endif %}', '{#- a -#}\n x', '{# a +#}\nb', '{# a +#} {% if true %}b{% endif %}', ' {#+ a #} {% if true %}b{% endif %}', 'x\n {#- a +#}\n {% if true %}b{% endif %}',
    '{# a #}\n {% if true %}b{% endif %}', '{# a -#}\n {% if true %}b{% endif %}', '{{ 1 -}}\n {% if true %}b{% endif %}', '{% if true +%}\n {% endif %}b',
    '\t{% set x = 1 %}\t\n\t{{ x }}', 'x{% if true %} {% endif %} {% if true %}y{% endif %}', '', '{{ "{{" }} {% if "%}" %}y{% endif %}',
    '{{ True and not False }} {{ None }} {{ None == none }} {{ "x" if None else "y" }} {{ True is true }}',
    # strings
    r"""{{ 'a\n\t\\\'\"' ~ "b\x41\u00e9\d" }}""", '{{ "a" "b" \'c\' }}', '{{ "a\\\nb" }}', '{{ "\u4e2d"[0] ~ "abc"[-1] }}',
    '{{ "abcdef"[1:3] ~ "abc"[:-1] ~ "abc"[::-1] ~ "abc"[5:] ~ "abcdef"[::2] ~ "abcdef"[4:1:-1] }}', '{{ "abc"[7] is defined }}',
    '{{ " a b ".strip() }}|{{ "xxaxx".strip("x") }}|{{ "xxaxx".lstrip("x") }}|{{ "xxaxx".rstrip("x") }}|{{ "\u00a0a\u3000".strip() }}|',
    '{{ "a,b,,c".split(",")|join("-") }}|{{ " a  b ".split()|join("-") }}|{{ "a,b,c".split(",", 1)|join("-") }}|{{ "a".split("</t>")[-1] }}',
    '{{ "abc".startswith("ab") }}{{ "abc".endswith("bc") }}{{ "abc".startswith(("x", "a")) }}{{ "b" in "abc" }}{{ "" in "" }}{{ "x" not in "abc" }}',
    '{{ "aXbX".replace("X", "--") }}{{ "aXbX".replace("X", "", 1) }}{{ "hello world"|title if false else "hello wORLD".title() }}',
    '{{ "Ab".upper() ~ "Ab".lower() ~ "aB".capitalize() ~ " aB".capitalize() ~ "aB-c2d\'E f".title() ~ "abc".find("c") ~ "abc".find("z") }}{{ "-".join(["a", "b"]) }}',
    '{{ "<{}{{{}}}|{}>".format(":a", 1, none) }}{{ "{}".format(true, 2) }}{{ "}}{{".format() }}{{ "\u4e2d{}".format("b") }}|{{ "{}".format(missing) }}|{{ "{} {}".format(messages[2].content, 15) }}',
    '{{ "{}{}".format(1) }}', '{{ "{".format(1) }}', '{{ "a}".format(1) }}',
    # numbers, comparisons, logic
    '{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ 7 % 3 }} {{ -3 + 1 }} {{ (1 + 2) * 3 }} {{ 2 * -1 }} {{ 1 == 1.0 if false else 3 }}',
    '{{ 1 < 2 < 2 }} {{ 1 < 3 > 2 }} {{ 3 > 1 > 2 }} {{ 1 == 1 < 1 }} {{ 2 > 1 == 1 != 0 }}', '{{ 1 < 2 < 3 }} {{ 3 > 2 >= 2 }} {{ 1 != 2 }} {{ true == 1 }} {{ "1" == 1 }} {{ none == none }} {{ [1, 2] == [1, 2] }} {{ none == false }}',
    '{{ 0 or "x" }} {{ "" and "x" }}| {{ 1 and 2 }} {{ not 1 }} {{ not not "a" }} {{ none or false }} {{ true and not false or false }}',
    '{{ "a" if false }}|{{ "a" if true else "b" }}|{{ "a" if false else "b" if false else "c" }}|{{ ("a" if 0 else "b") ~ "c" }}',
    '{{ 1 ~ none ~ true ~ "x" ~ missing }}', '{{ none }} {{ true }} {{ 12 }}', '{{ not "a" in "abc" }} {{ not missing is defined }} {{ 1 in [1] and 2 not in [1] }}',
    '{{ 1 if 2 > 1 and 3 else 4 }} {{ "x" is string and "y" }} {{ 5 is divisibleby 5 if false else 1 }}',
    # undefined values
    '{{ missing }}|{{ missing is defined }}|{{ messages[9] is defined }}|{{ messages[0].x }}|{{ missing|default("d") }}|{{ ""|default("d", true) }}',
    '{% for x in missing %}x{% else %}none{% endfor %}{{ missing|length }}{{ "a" in missing }}{{ missing == missing2 }}', '{{ missing.x }}', '{{ missing + "x" }}',
    '{{ missing["x"] }}', '{{ missing() }}', '{{ messages[0].content.text }}|{{ "a".text is defined }}', '{{ messages.x is defined }}', '{{ none.x is defined }}',
    # what few templates do
    '{% for x in [1] %}{% continue %}{% else %}no turn ended{% endfor %}{% for x in [1, 2] %}{% if x == 1 %}{% break %}{% endif %}{% else %}none{% endfor %}{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}',
    '{{ "aaa".replace("a", "b", true) ~ "a-b-c".split("-", true)|join("+") ~ "aaa"|replace("a", "b", true) ~ "aa"|replace("a", "b", none) }}',
    '{{ "a".upper(1) }}', '{{ "a".strip("a", "b") }}', '{{ "-".join([1, 2]) }}', '{{ "-".join() }}', '{{ "a".replace("a", "b", none) }}', '{{ "abc"[1 2] }}', '{{ "abc"[] }}', '{{ range(100001)|length }}', '{{ range(100000)|length }}',
    '{{ strftime_now("\u00e9%%\u4e2d%%f") }}|{{ strftime_now("") }}',
    # lists, dicts
    '{{ [1, 2, 3][1] }} {{ [1, 2][-1] }} {{ [1, 2, 3][1:]|length }} {{ ([1] + [2])|length }} {{ (1, 2)|first }} {{ []|first is defined }} {{ [1, 2]|last }}',
    '{{ {"a": 1, "b": 2}["b"] }} {{ {"a": 1}.a }} {{ {"a": 1}.get("b", 3) }} {{ {"a": 1}.get("b") }} {{ "a" in {"a": 1} }} {{ {}|length }}',
    '{% for k, v in {"b": 1, "a": 2}.items() %}{{ k }}{{ v }}{% endfor %} {% for k, v in {"b": 1, "A": 2}|dictsort %}{{ k }}{{ v }}{% endfor %}{% for k in {"x": 1, "a": 2, "m": 3} %}{{ k }}{{ loop.index }}{% endfor %}',
    '{% for k, v in {3: "c", 1: "a", 20: "b", 2: "d"}|dictsort %}{{ k }}{{ v }}{% endfor %} {% for k, v in {"ab": 1, "a": 2, "B": 3, "aa": 4}|dictsort %}{{ k }}{{ v }}{% endfor %}',
    '{{ "' + 'a'.join(SPACES) + '"|trim|length }} {{ "' + 'a'.join(SPACES) + '".split()|length }}',
    '{{ {"a": [1, none, true, "q\\"\\u00e9\\n"], "b": {}}|tojson }} {{ "<&>\'"|tojson }} {{ {"a": [1]}|tojson(indent=2) }} {{ []|tojson(indent=2) }}',
    '{{ messages[0]|tojson }} {{ "\u00e9\u4e2d\U0001f600"|tojson(ensure_ascii=true) }}', '{{ {"a": 1}.b is defined }} {{ {"items": 3}.items is defined if false else 1 }}',
    '{{ messages|map(attribute="role")|join(",") }} {{ ["a", "b"]|map("upper")|list|length }} {{ messages|selectattr("role", "equalto", "user")|list|length }}',
    '{{ messages|rejectattr("role", "in", ["user"])|map(attribute="content")|first }} {{ [0, 1, ""]|select|list|length }} {{ [1, 2, 3]|reject("odd")|first }}',
    '{{ (messages|selectattr("role", "equalto", "nobody")) is defined }} {% if messages|selectattr("role", "equalto", "nobody") %}a generator is true{% endif %}',
    '{{ none|map("upper")|list|length }} {{ [3, 1]|reverse|first }} {{ range(3)|join }} {{ range(1, 7, 3)|join(",") }} {{ range(3, 0, -1)|join }} {{ range(0)|length }}',
    '{{ range(6, 0, -2)|join(",") }} {{ range(5, 0, -2)|join(",") }} {{ "\u0416\u1e9e\x7f"|tojson(ensure_ascii=true) }}',
    '{{ " a "|trim }}|{{ "xax"|trim("x") }}|{{ none|trim }}|{{ "a"|upper }}|{{ "aB"|capitalize }}|{{ "AB"|lower }}|{{ 3|string ~ 4 }}|{{ "12"|int + 1 }}|{{ "a-b"|replace("-", "+") }}',
    '{{ "a" | trim | upper ~ "b" }}', '{{ -1|string }}', '{{ "a"|safe }}', '{{ messages|length > 1 }} {{ messages[1:]|length }} {{ messages[:2][0].role }} {{ messages[-1].content }}',
    '{{ {} == {} }}{% set d = {"a": 1} %}{{ d == d }}{{ {} == [] }}{{ {} != {} }}', '{{ {"items": 3}["items"] }} {{ {1: "x"}[true] }} {{ true in {1: 2} }} {{ 1 in {"1": 2} }} {{ {"1": 2}[1] is defined }} {{ {0: 1}["a"] is defined }}',
    '{{ [1, 2, 3][::5]|join(",") }} {{ [1, 2, 3][5:1:-9]|join(",") }} {{ [1, 2, 3][::-5]|join }} {{ [1][::none]|join }} {{ [1, 2][true:]|join if false else 2 }}', '{{ "\\U0001F600\\u00E9\\x4A" }}',
    '{{ "a".replace("abc", "x") }} {{ "abcabd".replace("abd", "-") }} {{ "a".find("abc") }}', '{{ [1]|default("d", true)|join }}|{{ ""|default(none, true) }}|{{ missing|default }}|{{ 0|d("x", false) }}|{{ 0|d("x", true) }}',
    '{{ 012 }}', '{{ 1a }}', '{{ "\\xG1" }}', '{{ [1][1:2:3:4] }}', '{{ [1][::0] }}', '{{ range()|join }}', '{{ range(1, 2, 3, 4)|join }}', '{{ range(1, 2, 0) }}', '{{ range("a") }}',
    '{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(b=1, 2) }}', '{{ "a".replace("b") }}', '{{ "a".replace("b", 1) }}', '{{ 1 is eq }}', '{{ 1 is defined(1) }}', '{{ {}.get() }}', '{{ {}.get(1, 2, 3) }}', '{{ {}.keys(1) }}', '{{ "a" not "ab" }}', '{{ "a"|safe(1) }}',
    '{{ messages|selectattr|list|length }}', '{{ messages|map|list|length }}', '{{ messages|map(1)|list|length }}', '{% for x in [1] %}{{ loop.cycle() }}{% endfor %}', '{% for (a in [1] %}{% endfor %}', '{{ "a" > 1 }}', '{{ (1, 2 }}',
    # tests
    '{{ 1 is number }}{{ "a" is string }}{{ {} is mapping }}{{ [] is sequence }}{{ "a" is iterable }}{{ none is none }}{{ true is boolean }}{{ 1 is boolean }}{{ 1 is true }}{{ true is true }}',
    '{{ 3 is odd }}{{ 4 is even }}{{ 1 is eq 1 }}{{ 1 is ne(2) }}{{ "a" is in ["a"] }}{{ missing is undefined }}{{ {} is iterable }}{{ 1 is iterable }}{{ true is integer }}{{ true is number }}',
    '{{ "a" is not none }} {{ missing is not defined }} {{ "a" is not string }} {{ namespace is defined }} {{ strftime_now is defined }}',
    # loops
    '{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}',
    '{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else "-" }}{{ loop.nextitem.role if loop.nextitem }}{{ loop.cycle("a", "b") }} {% endfor %}',
    '{% for m in messages if m.role == "user" %}{{ loop.index }}{{ m.content }}{% if not loop.last %},{% endif %}{% endfor %}', '{% for c in "abc" %}{{ c }}.{% endfor %}',
    '{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}!', '{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }};{% endfor %}',
    '{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{% if j %}{% break %}{% endif %}{% endfor %}{{ loop.index }};{% endfor %}', '{% for x in [] %}a{% else %}b{% endfor %}',
    '{% for x in [1] if x > 1 %}a{% else %}b{% endfor %}', '{% for i in [1, 2] %}{% for j in [i] %}{% continue %}{% endfor %}{{ i }}{% endfor %}', '{% for x in 3 %}{% endfor %}', '{% for x in none %}{% endfor %}',
    '{% for i in range(3) %}{% if i == 1 %}{% set x %}{{ i }}{% endset %}{{ x }}{% endif %}{% endfor %}', '{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}',
    # what is not reached: nothing of it is run or written
    '{% if false %}{% for x in [1] if x %}a{% else %}b{% endfor %}c{{ f() }}{% endif %}d', '{% for x in [] %}{% for y in [1] if y %}a{% else %}b{% endfor %}c{{ f() }}{% endfor %}d', '{% if false %}{% for x in [1] %}a{% else %}b{% endfor %}c{{ f() }}{% else %}d{% endif %}',
    '{% if false %}{% set x %}a{% endset %}b{{ f() }}{% endif %}{{ x }}c', '{% if false %}{% set x | upper %}a{% endset %}b{{ f() }}{% endif %}{{ x }}c', '{% if false %}{% filter upper %}a{% endfilter %}b{{ f() }}{% endif %}c',
    '{% if false %}{% macro m(a, b=f()) %}a{% endmacro %}b{{ m(1) }}{% endif %}c', '{% if false %}{% if true %}a{% elif true %}b{% else %}c{% endif %}d{{ f() }}{% endif %}e', '{% if false %}{{ 1 if true else f() }}{{ f() and 1 }}{{ 1 or f() }}a{{ f() }}{% endif %}b',
    '{% if false %}{% for x in [1] %}{% break %}{% endfor %}a{{ f() }}{% endif %}b', '{% if false %}{% generation %}a{% endgeneration %}b{{ f() }}{% endif %}c', '{% if false %}{% call f(1) %}a{% endcall %}b{{ f() }}{% endif %}c',
    # scopes
    '{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}', '{% if true %}{% set x = 2 %}{% endif %}{{ x }}', '{% set ns = namespace(a=1, b="") %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}',
    '{% for i in [1] %}{% if true %}{% set y = 3 %}{% endif %}{{ y }}{% endfor %}{{ y }}', '{% set a, b = [1, 2] %}{{ a }}{{ b }}', '{% set x %}  a{{ 1 }}  {% endset %}[{{ x }}]', '{% set x | trim | upper %}  a  {% endset %}[{{ x }}]',
    '{% macro f(a, b=2, c="x") %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}|{{ f(1, c="y") }}|{{ f(b=3) }}|{{ f(1, 2, 3)|upper }}', '{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}',
    '{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}', '{% macro f() %}{{ i }}{% endmacro %}{% for i in [1] %}[{{ f() }}]{% endfor %}', '{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}', '{% macro f(a) %}{% endmacro %}{{ f(b=2) }}',
    '{% filter upper %}a{{ "b" }}{% endfilter %}', '{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}', '{% generation %}a{% set z = 1 %}{% endgeneration %}{{ z }}', '{% set x = 1 if false else "b" %}{{ x }}', '{% set messages = messages[1:] %}{{ messages|length }}',
    '{% if false %}a{% elif 1 %}b{% elif missing.x %}{% else %}c{% endif %}', '{% if 0 %}{{ missing.x }}{% else %}ok{% endif %}', '{{ dict(a=1).a }}', '{% set t = 1, 2 %}{{ t|length }}',
    # errors
    '{{ raise_exception("no: " ~ 1) }}', '{% if %}{% endif %}', '{{ 1 + "a" }}', '{{ none + "a" }}', '{{ "a" < 1 }}', '{{ [1] < 2 }}', '{% endif %}', '{% if true %}', '{% unknown %}', '{{ }}', '{{ 1 2 }}', '{{ (1 }}', '{{ "a }}',
    '{% for x in [1] %}', '{% for x "in" [1] %}{% endfor %}', '{{ 1 "if" true }}', '{{ 1 "and" 2 }}', '{{ 1 "is" defined }}', '{# a', '{{ "a" is string is string }}', '{{ none|length }}', '{{ {"a": 1}.update({}) }}', '{{ [].append(1) }}', '{{ "a".split("") }}', '{{ missing|tojson }}', '{% set ns.x = 1 %}', '{{ 5|length }}',
    # forms and errors that published templates have rarely
    '{% for k, v in {"b": 1, "a": 2}|items %}{{ k }}{{ v }}{% endfor %}{% for k, v in missing|items %}x{% else %}none{% endfor %}', '{{ 3|items|list }}',
    '{{ {"b": 1, "a": 2}.keys()|join(",") }} {{ {"b": 1, "a": 2}.values()|join(",") }}{% for k in {"c": 1}.keys() %}{{ k }}{% endfor %}{{ {}.values()|list|length }}',
    '{{ [5, 6].1 }} {{ messages.0.role }} {{ messages.1.content.0 }} {{ {1: "x"}.1 }} {{ [5].3 is defined }}', '{{ 7|int + true|int }} {{ "007"|int }} {{ false|int }}',
    '{{ [' + ', '.join(map(str, range(40))) + ']|join(".") }} {{ {' + ', '.join('"k%d": %d' % (i, i * i) for i in range(40)) + '}["k31"] }}',
    '{{ ([] + [1]) == [1] }} {{ ([1] + []) == [1] }} {{ [] + [] == [] }} {{ ("" + "a") ~ ("a" + "") }}', '{{ [1, 2, 3][-2:-1][0] }} {{ [1, 2, 3][none:2]|length }} {{ [1, 2, 3][2:1]|length }}',
    '{{ -"a" }}', '{{ [1]() }}', '{{ "a"() }}', '{{ (1)(2) }}', '{% for a, b in [[1]] %}{% endfor %}', '{% for a, b in [[1, 2, 3]] %}{% endfor %}', 
    '{{ "a" is odd }}', '{{ messages|map(attribute="role")|last }}', '{{ [1]|dictsort }}', '{{ {1: 2, "a": 3}|dictsort }}', '{{ 3|reverse|list }}', '{{ "abc".startswith(1) }}', '{{ 1 in 2 }}',
    '{{ {(1, 2): 3}|tojson }}', '{{ namespace(1) }}', '{{ dict(1) }}', '{{ "xax".strip(1) }}', '{{ "a".replace("a") }}', '{{ "a,b".split(1) }}',
    '{{ "a"|replace("a") }}', '{{ 3|join }}', '{% call f() %}{% endcall %}', '{{ f(', '{{ {"a": 1}[ }}', '{{ "a"|upper( }}', '{{ [1, }}', '{{ a. }}', '{{ a.1.2 is defined }}',
]

# ---- formats ---------------------------------------------------------------------------------------------------------------
LOOP = '{% for m in messages %}'
DONE = '{% endfor %}'
GEN = '{% if add_generation_prompt %}'
FORMATS = {
    'chatml with a default system text': "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}" + LOOP
        + "{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n'}}" + DONE + GEN + "{{ '<|im_start|>assistant\\n' }}{% endif %}",
    'qwen3: thinking is cut from history': '''{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi and message.role == "user" and message.content is string and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.multi = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set reasoning = '' %}
        {%- if '</think>' in message.content %}
            {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
            {%- set reasoning = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and reasoning)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}''',
    'a prompt that ends in think': LOOP + "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}" + DONE + GEN + "{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
    'llama 3.2: a date': '''{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is undefined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}{%- else %}{%- set system_message = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}''',
    'mistral v1': "{{ bos_token }}" + LOOP + "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
        "{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token + ' ' }}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}" + DONE,
    'mistral v3: the system text with the last user': '''{%- if messages[0]["role"] == "system" %}{%- set system_message = messages[0]["content"] %}{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}{{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}{{- "[INST] " + message["content"] + "[/INST]" }}{%- endif %}
    {%- elif message["role"] == "assistant" %}{{- " " + message["content"]|trim + eos_token}}
    {%- else %}{{- raise_exception("Only user and assistant roles are supported") }}{%- endif %}
{%- endfor %}''',
    'mistral v7: a system prompt token': '''{{- bos_token }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}{{- '[INST]' + message['content'] + '[/INST]' }}
    {%- elif message['role'] == 'system' %}{{- '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}
    {%- elif message['role'] == 'assistant' %}{{- message['content'] + eos_token }}{%- endif %}
{%- endfor %}''',
    'granite': LOOP + "{{- '<|start_of_role|>' + m['role'] + '<|end_of_role|>' + m['content'] + '<|end_of_text|>\\n' }}{%- if loop.last and add_generation_prompt %}\n{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}" + DONE,
    'exaone 3.5': LOOP + "{% if loop.first and m['role'] != 'system' %}{{ '[|system|][|endofturn|]\\n' }}{% endif %}{{ '[|' + m['role'] + '|]' + m['content'] }}{% if m['role'] == 'user' %}{{ '\\n' }}{% else %}{{ '[|endofturn|]\\n' }}{% endif %}" + DONE + GEN + "{{ '[|assistant|]' }}{% endif %}",
    'phi-4': LOOP + "{% if m.role in ['system', 'user', 'assistant'] %}{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}{% endif %}" + DONE + GEN + "{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}",
    'phi-4-mini': LOOP + "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}" + DONE + GEN + "{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}",
    'phi-3 medium drops the system text': LOOP + "{% if (m['role'] == 'user') %}{{'<|user|>' + '\\n' + m['content'] + '<|end|>' + '\\n' + '<|assistant|>' + '\\n'}}{% elif (m['role'] == 'assistant') %}{{m['content'] + '<|end|>' + '\\n'}}{% endif %}" + DONE,
    'gpt-oss': '''{{- "<|start|>system<|message|>Reasoning: " + (reasoning_effort if reasoning_effort is defined else "medium") + "<|end|>" }}
{%- set developer = "" %}{%- set loop_messages = messages %}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}{%- set developer = messages[0].content %}{%- set loop_messages = messages[1:] %}{%- endif %}
{%- if developer %}{{- "<|start|>developer<|message|># Instructions\\n\\n" + developer + "\\n\\n<|end|>" }}{%- endif %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if loop.last and not add_generation_prompt %}{{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}{%- else %}{{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}{%- endif %}
    {%- elif message.role == 'user' -%}{{- "<|start|>user<|message|>" + message.content + "<|end|>" }}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}''',
    'command-r': "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
        "{% if system_message != false %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% for m in loop_messages %}{% set content = m['content'] %}{% if m['role'] == 'user' %}"
        "{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% elif m['role'] == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'  + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% endfor %}"
        + GEN + "{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}",
    'olmo 2': "{{ bos_token }}" + LOOP + "{% if m['role'] == 'system' %}{{ '<|system|>\\n' + m['content'] + '\\n' }}{% elif m['role'] == 'user' %}{{ '<|user|>\\n' + m['content'] + '\\n' }}{% elif m['role'] == 'assistant' %}"
        "{% if not loop.last %}{{ '<|assistant|>\\n'  + m['content'] + eos_token + '\\n' }}{% else %}{{ '<|assistant|>\\n'  + m['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}" + DONE,
    'deepseek': "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(system='') %}" + LOOP + "{% if m['role'] == 'system' %}{% set ns.system = m['content'] %}{% endif %}" + DONE
        + "{{ bos_token }}{{ ns.system }}" + LOOP + "{% if m['role'] == 'user' %}{{ '<\uff5cUser\uff5c>' + m['content'] }}{% elif m['role'] == 'assistant' %}{% set content = m['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}"
        "{{ '<\uff5cAssistant\uff5c>' + content + '<\uff5cend\u2581of\u2581sentence\uff5c>' }}{% endif %}" + DONE + GEN + "{{ '<\uff5cAssistant\uff5c>' }}{% if thinking %}{{ '<think>' }}{% else %}{{ '</think>' }}{% endif %}{% endif %}",
    'glm-4': "[gMASK]<sop>" + LOOP + "<|{{ m.role }}|>\n{{ m.content }}" + DONE + GEN + "<|assistant|>{% endif %}",
    'falcon 3': "{% for message in messages %}{% if message['role'] == 'user' %}{{ '<|user|>\\n' + message['content'] + '\\n' }}{% elif message['role'] == 'system' %}{{ '<|system|>\\n' + message['content'] + '\\n' }}{% elif message['role'] == 'assistant' %}"
        "{% if not loop.last %}{{ '<|assistant|>\\n'  + message['content'] + eos_token + '\\n' }}{% else %}{{ '<|assistant|>\\n'  + message['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}{% endfor %}",
    'smollm3: metadata': '''{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- set mode = "/think" if enable_thinking else "/no_think" -%}
{%- if messages[0].role == "system" -%}{%- set system_message = messages[0].content -%}{%- if "/no_think" in system_message -%}{%- set mode = "/no_think" -%}{%- endif -%}
{%- set custom = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}{%- endif -%}
{{- "<|im_start|>system\\n" -}}{{- "## Metadata\\n\\nReasoning Mode: " + mode + "\\n\\n" -}}
{%- if custom -%}{{- custom + "\\n\\n" -}}{%- else -%}{{- "You are helpful.\\n\\n" -}}{%- endif -%}{{- "<|im_end|>\\n" -}}
{%- for message in messages -%}
{%- set content = message.content if message.content is string else "" -%}
{%- if message.role == "user" -%}{{ "<|im_start|>" + message.role + "\\n" + content + "<|im_end|>\\n" }}
{%- elif message.role == "assistant" -%}{% generation %}{%- if mode == "/think" -%}{{ "<|im_start|>assistant\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}{%- else -%}{{ "<|im_start|>assistant\\n" + "<think>\\n\\n</think>\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}{%- endif -%}{% endgeneration %}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{%- if mode == "/think" -%}{{ "<|im_start|>assistant\\n" }}{%- else -%}{{ "<|im_start|>assistant\\n" + "<think>\\n\\n</think>\\n"  }}{%- endif -%}{%- endif -%}''',
    'apertus': '''{%- macro render(text) -%}{{ text | trim }}{%- endmacro -%}
{%- set user_token = '<|user_start|>' -%}{%- set ns = namespace(in_assistant=false) -%}{{ bos_token }}
{%- if messages and messages[0].role == 'system' -%}{{ '<|system_start|>' + messages[0].content + '<|system_end|>' }}{%- set loop_messages = messages[1:] -%}{%- else -%}{{ '<|system_start|>You are Apertus.<|system_end|>' }}{%- set loop_messages = messages -%}{%- endif -%}
{{ '<|developer_start|>Deliberation: ' }}{%- if enable_thinking is defined and enable_thinking -%}{{ 'enabled\\n' }}{%- else -%}{{ 'disabled\\n' }}{%- endif -%}{{ '<|developer_end|>' }}
{%- for m in loop_messages -%}{%- if m.role == 'user' -%}{%- if ns.in_assistant -%}{{ '<|assistant_end|>' }}{%- set ns.in_assistant = false -%}{%- endif -%}{{ user_token + render(m.content) + '<|user_end|>' }}
{%- else -%}{%- if not ns.in_assistant -%}{{ '<|assistant_start|>' }}{%- set ns.in_assistant = true -%}{%- endif -%}{{ m.content }}{%- endif -%}{%- endfor -%}
{%- if ns.in_assistant -%}{{ '<|assistant_end|>' }}{%- endif -%}{%- if add_generation_prompt -%}{{ '<|assistant_start|>' }}{%- endif -%}''',
    'hunyuan': "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}{{ '<\uff5chy_place\u2581holder\u2581no\u25813\uff5c>' }}{% endif %}" + LOOP
        + "{% if m['role'] == 'user' %}{{ '<\uff5chy_User\uff5c>' + m['content'] }}{% elif m['role'] == 'assistant' %}{{ '<\uff5chy_Assistant\uff5c>' + m['content'] + '<\uff5chy_place\u2581holder\u2581no\u25812\uff5c>' }}{% endif %}" + DONE
        + GEN + "{{ '<\uff5chy_Assistant\uff5c>' }}{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n' }}{% endif %}{% endif %}",
    'gemma 2 refuses a system text': "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + LOOP
        + "{% if (m['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}" + DONE + GEN + "{{'<start_of_turn>model\\n'}}{% endif %}",
}


def row(template, messages, prompt, variables):
    given = [{'role': r, 'content': c} for r, c in messages]
    try:
        text = _compile_jinja_template(template).render(messages=given, tools=None, documents=None,
                                                         add_generation_prompt=prompt, **variables)
    except Exception:  # of many kinds
        text = None
    return [template, messages, prompt, variables, text]


def rows():
    tokens = {'bos_token': '<s>', 'eos_token': '</s>'}
    for template in LANGUAGE:
        yield row(template, TALK[:3], True, {})
    for template in FORMATS.values():
        for system in ([], [['system', ' Be brief. ']]):
            for n in (1, 3, 5):
                yield row(template, system + TALK[:n], True, tokens)
        yield row(template, TALK[:4], False, tokens)
        yield row(template, TALK[:1], True, tokens | {'enable_thinking': False, 'thinking': True, 'date_string': '1 May 2025'})


def main():
    out = [json.dumps(r) for r in rows()]
    sys.stdout.write('[\n' + ',\n'.join(out) + '\n]\n')


if __name__ == '__main__':
    main()
