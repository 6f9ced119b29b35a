"""URI templates: expanded URIs match again, matched values are safe to use, and matching is fast."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError, UsageError
from toolcrib.server.components.uri_template import UriTemplate, check_uri, expand, is_template

VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
PATHS = VALUES.filter(lambda value: ".." not in value and value[0] not in "/\\")


def matched(template: str, uri: str) -> dict[str, str] | None:
    return UriTemplate(template).match(uri)


# ---- matching ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "template, uri, variables",
    [
        ("file:///{path}", "file:///a.txt", {"path": "a.txt"}),
        ("file:///{path}", "file:///src/deep/a.txt", {"path": "src/deep/a.txt"}),
        ("file://{path}", "file:///etc/hosts", {"path": "/etc/hosts"}),
        ("test://template/{id}/data", "test://template/123/data", {"id": "123"}),
        ("repo://{owner}/{name}", "repo://me/it", {"owner": "me", "name": "it"}),
        ("git://{+path}/log/{count}", "git://a/b/log/c/log/7", {"path": "a/b/log/c", "count": "7"}),
        ("git://{path*}/log/{count}", "git://a/log/7", {"path": "a", "count": "7"}),
        ("git://{ref}/{path*}.py", "git://main/a/b.py", {"ref": "main", "path": "a/b"}),
        ("note://{title}", "note://caf%C3%A9%20%26%20bar", {"title": "café & bar"}),
        ("note://{title}", "note://a%2Fb", {"title": "a/b"}),
        ("note://{title}", "note://plain words, and é", {"title": "plain words, and é"}),
        ("note://{title}", "note://50%", {"title": "50%"}),
        ("urn:isbn:{number}", "urn:isbn:12:3", {"number": "12:3"}),
        ("day://{year}-{month}-{day}", "day://2026-07-28", {"year": "2026", "month": "07", "day": "28"}),
        ("day://{year}-{month}-{day}", "day://1-2-3-4", {"year": "1", "month": "2", "day": "3-4"}),
        ("x://{a}/y?z={z}&k={k}", "x://1/y?z=p/q&k=3", {"a": "1", "z": "p/q", "k": "3"}),
        ("find://all{?q,limit}", "find://all", {}),
        ("find://all{?q,limit}", "find://all?", {}),
        ("find://all{?q,limit}", "find://all?limit=5", {"limit": "5"}),
        ("find://all{?q,limit}", "find://all?limit=5&q=a+b%2Bc", {"q": "a b+c", "limit": "5"}),
        ("find://all{?q}", "find://all?q", {"q": ""}),
        ("find://all{?q*}", "find://all?q=x", {"q": "x"}),
        ("find://{kind}{?q}", "find://a/b?q=c?d=e", {"kind": "a/b", "q": "c?d=e"}),
        ("map://{x,y}", "map://1024,768", {"x": "1024", "y": "768"}),
        ("map://{x,y}", "map://a%2Cb,768", {"x": "a,b", "y": "768"}),
        ("file:///{name}{.ext}", "file:///a.tar.gz", {"name": "a", "ext": "tar.gz"}),
        ("file:///{+path}{.ext}", "file:///a.b/c.tar.gz", {"path": "a.b/c.tar", "ext": "gz"}),
        ("repo://x{/owner,name}", "repo://x/me/it", {"owner": "me", "name": "it"}),
        ("repo://x{/owner,name}", "repo://x/me/a%2Fb", {"owner": "me", "name": "a/b"}),
        ("repo://x{/owner}/log", "repo://x/me/log", {"owner": "me"}),
        ("repo://{+path}{/name}", "repo://a/b/c", {"path": "a/b", "name": "c"}),
        ("car://x{;colour,size}", "car://x;colour=red;size=5", {"colour": "red", "size": "5"}),
        ("car://x{;colour,size}", "car://x;colour;size=", {"colour": "", "size": ""}),
        ("car://{kind}{;a,ab}/y", "car://z;a=1;ab=2/y", {"kind": "z", "a": "1", "ab": "2"}),
        ("find://all?fixed=yes{&q}", "find://all?fixed=yes", {}),
        ("find://all?fixed=yes{&q}", "find://all?fixed=yes&q=1", {"q": "1"}),
        ("find://all?a={a}&b=1{&q,p}", "find://all?a=2&b=1&p=4&q=3", {"a": "2", "p": "4", "q": "3"}),
        ("find://all{?q}{&p}", "find://all?p=1&q=2", {"p": "1", "q": "2"}),
        ("doc://{page}{#part}", "doc://a/b", {"page": "a/b"}),
        ("doc://{page}{#part}", "doc://a#", {"page": "a", "part": ""}),
        ("doc://{page}{#part}", "doc://a#b/c?d#e%20f", {"page": "a", "part": "b/c?d#e f"}),
        ("doc://{page}{?q}{#part}", "doc://a?q=1#b", {"page": "a", "q": "1", "part": "b"}),
        ("doc://{page}{?q}{#part}", "doc://a#b?q=1", {"page": "a", "part": "b?q=1"}),
    ],
)
def test_a_uri_of_the_family_gives_its_variables(template: str, uri: str, variables: dict[str, str]) -> None:
    assert matched(template, uri) == variables


@pytest.mark.parametrize(
    "template, uri",
    [
        ("file:///{path}", "file:///"),
        ("file:///{path}", "file://a"),
        ("file:///{path}", "FILE:///a"),
        ("file:///{path}", "file:///a?b"),
        ("file:///{path}", "file:///a#b"),
        ("file:///{path}", ""),
        ("test://template/{id}/data", "test://template//data"),
        ("test://template/{id}/data", "test://template/data"),
        ("test://template/{id}/data", "test://template/1/2/data"),
        ("test://template/{id}/data", "test://template/1/data/"),
        ("test://template/{id}/data", "test://template/1?x/data"),
        ("git://{+path}/{file}", "git://a"),
        ("git://{+path}/{file}", "git:///a"),
        ("note://{title}", "note://%FF"),
        ("ab://{x}b", "ab://b"),
        ("aba:aba{x}aba", "aba:aba"),
        ("aba:aba{x}aba", "aba:abaaba"),
        ("x://y?z={z}", "x://y?z=1&k=2"),
        ("find://all{?q}", "find://all?other=1"),
        ("find://all{?q}", "find://all?q=1&q=2"),
        ("find://all{?q}", "find://all?q=1#top"),
        ("find://all{?q}", "find://all?q=%FF"),
        ("find://all{?q}", "find://all/more?q=1"),
        ("map://{x,y}", "map://1024"),
        ("map://{x,y}", "map://1,2,3"),
        ("map://{x,y}", "map://1,2/3"),
        ("repo://x{/owner,name}", "repo://x/me"),
        ("repo://x{/owner,name}", "repo://x/me/it/more"),
        ("repo://x{/owner}", "repo://x/"),
        ("repo://x{/owner}", "repo://x"),
        ("repo://x{/owner}", "repo://x/%2E%2E"),
        ("car://x{;colour}", "car://x"),
        ("car://x{;colour}", "car://x;colours=red"),
        ("car://x{;colour}", "car://x;colour=red;size=5"),
        ("car://x{;size,colour}", "car://x;colour=red;size=5"),
        ("find://all?fixed=yes{&q}", "find://all?q=1"),
        ("find://all?fixed=yes{&q}", "find://all?fixed=yes&other=1"),
        ("doc://x{#part}", "doc://xy#part"),
        ("doc://x{#part}", "doc://x#%FF"),
    ],
)
def test_another_uri_does_not_match(template: str, uri: str) -> None:
    assert matched(template, uri) is None


@pytest.mark.parametrize(
    "tail",
    [
        "../etc/passwd",
        "a/../../etc/passwd",
        "a/..",
        "..",
        "%2e%2e/etc",
        "a/%2E./b",
        "a%2F..%2Fb",
        "..%5Cwindows",
        "/etc/passwd",
        "%2Fetc/passwd",
        "%5Cetc",
        "a%00.txt",
    ],
)
@pytest.mark.parametrize("template", ["docs://{path}", "docs:{path*}", "docs:///{+path}", "docs://{path}{?x}"])
def test_a_path_that_leaves_its_folder_does_not_match(template: str, tail: str) -> None:
    start = template[: template.index("{")]
    assert matched(template, start + "inside") == {"path": "inside"}
    assert matched(template, start + tail) is None


@pytest.mark.parametrize("tail", ["...", "a..b", "main..dev", "a/.hidden", "./a", ".", "a//b", "a/"])
def test_dots_that_lead_nowhere_are_names_like_any_other(tail: str) -> None:
    assert matched("file:///{path}", "file:///" + tail) == {"path": tail}


def test_a_query_is_not_a_path_and_may_hold_anything() -> None:
    assert matched("find://all{?q}", "find://all?q=../x") == {"q": "../x"}
    assert matched("find://all?q={q}", "find://all?q=/../x") == {"q": "/../x"}


# ---- expanding -----------------------------------------------------------------------------------------------


@given(st.fixed_dictionaries({"a": PATHS, "b": PATHS, "c": PATHS}, optional={"d": VALUES | st.just(""), "e": VALUES}))
@pytest.mark.parametrize(
    "template",
    [
        "x://{a}/{b}/{c}{?d,e}",
        "x://{a}/mid/{b}:{c}{?d,e}",
        "x://{a}/{b*}/{c}{?d,e}",
        "x://{+a}/{b}/{c}/end{?d,e}",
        "x://{a}@{b}/{+c}{?d,e}",
        "x://{a}/{b}/{c*}{?d,e}",
    ],
)
def test_what_is_expanded_gives_its_variables_back(template: str, variables: dict[str, str]) -> None:
    made = UriTemplate(template)
    uri = made.expand(variables)
    assert made.match(uri) == variables


@given(st.data())
def test_a_match_expands_to_a_uri_that_matches_in_the_same_way(data: st.DataObject) -> None:
    template = UriTemplate(data.draw(st.sampled_from(["x:/{a}-{b}", "x:/{a}.{b}", "x:/{a}-{+b}-{c}", "x:/{+a}{?b}"])))
    pieces = st.sampled_from(["a", "b", "-", ".", "/", "%2F", "%2e", "?b=", "&", "%", "+"])
    variables = template.match("x:/a-b.c-" + "".join(data.draw(st.lists(pieces, max_size=9))))
    if variables is not None:
        assert template.match(template.expand(variables)) == variables


@given(
    st.fixed_dictionaries(
        {"a": PATHS, "b": PATHS, "c": PATHS}, optional={"d": VALUES | st.just(""), "e": VALUES, "f": VALUES}
    )
)
@pytest.mark.parametrize(
    "template",
    [
        "x://{a,b}/{c}{?d,e}{#f}",
        "x://h{/a,b,c}{?d,e}{#f}",
        "x://h{/a}/m{/b}/{c}{?d}{&e}{#f}",
        "x://{a}{/b}{/c}?k=v{&d,e}{#f}",
        "x://h{/a}{;b,c}{?d,e}{#f}",
        "x://h{;a}/{b}{;c}{?d,e}{#f}",
        "x://{a}{/b}/{+c}{?d,e}{#f}",
        "x://{+a}{/b}{;c}{?d,e}{#f}",
        "x://{a}?b={b}&c={c}{&d,e,f}",
    ],
)
def test_what_an_operator_expands_gives_its_variables_back(template: str, variables: dict[str, str]) -> None:
    made = UriTemplate(template)
    variables = {name: value for name, value in variables.items() if name in made.variables}
    assert made.match(made.expand(variables)) == variables


@given(st.fixed_dictionaries({"a": PATHS, "b": PATHS, "c": PATHS}))
@pytest.mark.parametrize("template", ["x://{a}-{b}-{c}", "x://h{.a,b,c}", "x://{a}{.b}{/c}", "x://{+a}{.b}{.c}"])
def test_what_would_be_read_as_other_values_is_not_expanded(template: str, variables: dict[str, str]) -> None:
    made = UriTemplate(template)
    try:
        uri = made.expand(variables)
    except UsageError:
        assert any("." in value or "-" in value for value in variables.values())
    else:
        assert made.match(uri) == variables


def test_a_path_is_written_with_its_slashes_and_other_values_are_encoded() -> None:
    assert UriTemplate("file:///{path}").expand({"path": "a b/c.txt"}) == "file:///a%20b/c.txt"
    assert UriTemplate("x:/{a}/{b}{?c}").expand({"a": "1/2", "b": "é", "c": "&"}) == "x:/1%2F2/%C3%A9?c=%26"
    assert UriTemplate("x:/{+a}").expand({"a": "b:c/d?e#f"}) == "x:/b:c/d?e#f"
    assert UriTemplate("x:/{+a}{?q}").expand({"a": "b?c"}) == "x:/b%3Fc"


@pytest.mark.parametrize("variables", [{}, {"path": ""}, {"path": "../a"}, {"path": "/a"}, {"path": "a", "b": "c"}])
def test_what_would_not_match_again_is_not_expanded(variables: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=re.escape("file:///{path}")):
        UriTemplate("file:///{path}").expand(variables)


# ---- the tables of RFC 6570, sections 1.2 and 3.2, levels 1 to 3 ----------------------------------------------

RFC_VARIABLES = {
    "base": "http://example.com/home/",
    "dub": "me/too",
    "empty": "",
    "half": "50%",
    "hello": "Hello World!",
    "path": "/foo/bar",
    "v": "6",
    "var": "value",
    "who": "fred",
    "x": "1024",
    "y": "768",
}
RFC_EXPANSIONS = """
1.2 level 1
    {var}                value
    {hello}              Hello%20World%21
1.2 level 2
    {+var}               value
    {+hello}             Hello%20World!
    {+path}/here         /foo/bar/here
    here?ref={+path}     here?ref=/foo/bar
    X{#var}              X#value
    X{#hello}            X#Hello%20World!
1.2 level 3
    map?{x,y}            map?1024,768
    {x,hello,y}          1024,Hello%20World%21,768
    {+x,hello,y}         1024,Hello%20World!,768
    {+path,x}/here       /foo/bar,1024/here
    {#x,hello,y}         #1024,Hello%20World!,768
    {#path,x}/here       #/foo/bar,1024/here
    X{.var}              X.value
    X{.x,y}              X.1024.768
    {/var}               /value
    {/var,x}/here        /value/1024/here
    {;x,y}               ;x=1024;y=768
    {;x,y,empty}         ;x=1024;y=768;empty
    {?x,y}               ?x=1024&y=768
    {?x,y,empty}         ?x=1024&y=768&empty=
    ?fixed=yes{&x}       ?fixed=yes&x=1024
    {&x,y,empty}         &x=1024&y=768&empty=
3.2.2
    {half}               50%25
    O{empty}X            OX
    O{undef}X            OX
    {x,y}                1024,768
    ?{x,empty}           ?1024,
    ?{x,undef}           ?1024
    ?{undef,y}           ?768
3.2.3
    {+half}              50%25
    {base}index          http%3A%2F%2Fexample.com%2Fhome%2Findex
    {+base}index         http://example.com/home/index
    O{+empty}X           OX
    O{+undef}X           OX
    up{+path}{var}/here  up/foo/barvalue/here
3.2.4
    {#var}               #value
    {#hello}             #Hello%20World!
    {#half}              #50%25
    foo{#empty}          foo#
    foo{#undef}          foo
3.2.5
    {.who}               .fred
    {.who,who}           .fred.fred
    {.half,who}          .50%25.fred
    X{.empty}            X.
    X{.undef}            X
3.2.6
    {/who}               /fred
    {/who,who}           /fred/fred
    {/half,who}          /50%25/fred
    {/who,dub}           /fred/me%2Ftoo
    {/var,empty}         /value/
    {/var,undef}         /value
3.2.7
    {;who}               ;who=fred
    {;half}              ;half=50%25
    {;empty}             ;empty
    {;v,empty,who}       ;v=6;empty;who=fred
    {;v,bar,who}         ;v=6;who=fred
    {;x,y,undef}         ;x=1024;y=768
3.2.8
    {?who}               ?who=fred
    {?half}              ?half=50%25
    {?x,y,undef}         ?x=1024&y=768
3.2.9
    {&who}               &who=fred
    {&half}              &half=50%25
    {&x,y,undef}         &x=1024&y=768
"""


@pytest.mark.parametrize("row", [line.strip() for line in RFC_EXPANSIONS.splitlines() if line.startswith(" ")])
def test_expansion_follows_the_rfc(row: str) -> None:
    template, expanded = row.split()
    assert expand(template, RFC_VARIABLES) == expanded


# ---- against a model -----------------------------------------------------------------------------------------


def model(template: str) -> re.Pattern[str]:
    """The same templates as regular expressions, which may take any time."""
    pieces = re.split(r"(\{[^}]*\})", template)
    names = [piece for piece in pieces if piece.startswith("{")]
    wide = any("+" in name or "*" in name for name in names)
    written = ""
    for index, piece in enumerate(pieces):
        if not piece.startswith("{"):
            written += re.escape(piece)
            continue
        before = "".join(pieces[:index:2])
        narrow = "[^?#&]+" if "?" in before else "[^/?#]+"
        at_end = not wide and piece == names[-1] and not pieces[-1] and "?" not in before
        kind = ".+" if "+" in piece or "*" in piece else "[^?#]+" if at_end else narrow
        guard = "(?!/)" if "?" not in before else ""
        written += f"(?P<{piece.strip('{+*}')}>{guard}{kind})"
    return re.compile(written, re.DOTALL)


LITERALS = ("/", "-", "--", "a", "a/", "/a", "?", "-?a", "&", "/-/")


@st.composite
def templates(draw: st.DrawFn) -> str:
    count = draw(st.integers(1, 3))
    wide = draw(st.integers(0, 2 * count))
    forms = [("{+%s}" if wide % 2 else "{%s*}") if index == wide // 2 else "{%s}" for index in range(count)]
    literals = draw(st.lists(st.sampled_from(LITERALS), min_size=count + 1, max_size=count + 1))
    if draw(st.booleans()):
        literals[-1] = ""
    names = [form % "pqr"[index] for index, form in enumerate(forms)]
    return "x:" + "".join(itertools.chain(*itertools.zip_longest(literals, names, fillvalue="")))


@given(templates(), st.data())
def test_a_uri_matches_exactly_if_there_is_a_way_to_read_it(template: str, data: st.DataObject) -> None:
    expected = model(template)
    # The model knows how to write what matches, too; otherwise most URIs would be far off.
    uri = data.draw(
        st.text("a/-?&", max_size=10).map("x:".__add__) | st.from_regex(expected, fullmatch=True, alphabet="xa/-?&:")
    )
    found = UriTemplate(template).match(uri)
    assert (found is not None) == bool(expected.fullmatch(uri))
    if found is not None:
        assert set(found) == set(expected.groupindex)
        literal = template
        for name, value in found.items():
            literal = re.sub(r"\{\+?" + name + r"\*?\}", lambda _, value=value: value, literal)
        assert literal == uri


# ---- time ----------------------------------------------------------------------------------------------------

HOSTILE = {
    "dashes": ("x://{a}-{b}-{c}-{d}!", lambda n: "x://" + "-" * n),
    "slashes": ("x://{a}/{b*}/{c}/end", lambda n: "x://" + "/" * n),
    "almost the suffix": ("x://{+a}/abab", lambda n: "x://" + "/aba" * n),
    "almost the literal": ("x://{a}aab{b}", lambda n: "x://" + "aa" * n),
    "from the right": ("x://{+a}baa{b}c", lambda n: "x://" + "aa" * n + "c"),
    "percent": ("x://{a}", lambda n: "x://" + "%41" * n),
    "no percent": ("x://{a}", lambda n: "x://" + "%" * n),
    "dots": ("x://{a}", lambda n: "x://" + "../" * n),
    "dots that pass": ("x://{a}", lambda n: "x://" + "a../" * n),
    "query": ("x://a{?b,c}", lambda n: "x://a?" + "b&" * n),
    "query marks": ("x://a{?b,c}", lambda n: "x://a" + "?" * n),
    "query value": ("x://a{?b,c}", lambda n: "x://a?b=" + "+%20" * n),
    "labels": ("x://a{.b,c,d}/e", lambda n: "x://a" + "." * n),
    "segments": ("x://a{/b,c,d}/e", lambda n: "x://a" + "/" * n),
    "segments from the right": ("x://{+a}{/b,c}{.d}", lambda n: "x://" + "/a." * n),
    "parameters": ("x://a{;b,c}/d", lambda n: "x://a" + ";b;c" * n),
    "commas": ("x://{a,b,c}", lambda n: "x://" + "," * n),
    "ampersands": ("x://a?b=1&c=2{&d}", lambda n: "x://a?b=1" + "&" * n),
    "fragment": ("x://{a}{#b}", lambda n: "x://a" + "#" * n),
}
REPRESENTATIVE = ("dashes", "slashes", "from the right", "percent", "dots that pass", "query", "parameters", "segments")


def seconds(template: UriTemplate, uri: str) -> float:
    best = 1e9
    for _ in range(5):
        start = time.thread_time()
        template.match(uri)
        best = min(best, time.thread_time() - start)
    return best


@pytest.mark.serial
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in REPRESENTATIVE else pytest.mark.nightly) for name in HOSTILE]
)
def test_no_uri_takes_more_than_linear_time(name: str) -> None:
    text, uri = HOSTILE[name]
    template = UriTemplate(text)
    # Linear would be 64 times the time, quadratic 4,096 times; that caches end somewhere makes some difference.
    assert seconds(template, uri(320_000)) < 768 * max(seconds(template, uri(5_000)), 1e-5)


EXPRESSIONS = [
    "{a}",
    "{b}",
    "{a,b}",
    "{+a}",
    "{#c}",
    "{.a}",
    "{/a,b}",
    "{;a}",
    "{?c}",
    "{&d}",
    "{a*}",
    "/",
    ".",
    "?k=v",
]


@given(
    st.text("x:/a-{}?%.=&#+*,;", max_size=20) | st.lists(st.sampled_from(EXPRESSIONS), max_size=5).map("".join),
    st.text("x:/a-?%.=&#;,\0é", max_size=30),
)
def test_nothing_but_a_config_error_comes_of_any_template_and_any_uri(text: str, uri: str) -> None:
    try:
        template = UriTemplate("x:" + text)
    except ConfigError:
        return
    found = template.match("x:" + uri)
    assert found is None or set(found) <= set(template.variables)


# ---- invalid templates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, reason",
    [
        ("x:/{", "a } for every {"),
        ("x:/{a", "a } for every {"),
        ("x:/a}", "a } for every {"),
        ("x:/{{a}}", "a } for every {"),
        ("x:/{}", "expressions such as"),
        ("x:/{a b}", "without spaces"),
        ("x:/{a-b}", "expressions such as"),
        ("x:/{=a}", "expressions such as"),
        ("x:/{|a}", "expressions such as"),
        ("x:/{a:3}", "level 4"),
        ("x:/{a:3,b}", "level 4"),
        ("x:/{a,b*}", "level 4"),
        ("x:{/a*}", "level 4"),
        ("x:/b{.a*}", "level 4"),
        ("x:/b{;a*}", "level 4"),
        ("x:/b{#a*}", "level 4"),
        ("x:/b{?a:2}", "level 4"),
        ("x:/b{?a}{&b*}", "level 4"),
        ("x:/{+}", "expressions such as"),
        ("x:/{?}", "expressions such as"),
        ("x:/{?a,}", "expressions such as"),
        ("x:/a{?b}/c", "only at the end"),
        ("x:/a?b=c{?d}", "the only query"),
        ("x:/{?a}{?b}", "the only query"),
        ("x:/b{&a}", "a query before"),
        ("x:/b{?a}{c}", "only at the end"),
        ("x:/b{#a}{c}", "only at the end"),
        ("x:/b{#a}/c", "only at the end"),
        ("x:/b{#a}{?c}", "only at the end"),
        ("x:/b{#a}{#c}", "only at the end"),
        ("x:/b#c{#a}", "the only fragment"),
        ("x:/b{#a,c}", "one variable in {#...}"),
        ("x:/{+a,b}", "at most one variable"),
        ("x:/{a*}{/b}/{+c}", "at most one variable"),
        ("x:/{+a}{b}", "literal text between two variables"),
        ("x:/{/a}{b}", "literal text between two variables"),
        ("x:/{a}{/a}", "each variable once"),
        ("x:/b{?a}{&a}", "each variable once"),
        ("x:/b{?a}{#a}", "each variable once"),
        ("x:/{a}{b}", "literal text between two variables"),
        ("x:/{a}/{a}", "each variable once"),
        ("x:/{a}{?a}", "each variable once"),
        ("x:/{+a}/{b*}", "at most one variable"),
        ("{scheme}://a", "a scheme"),
        ("s{x}:a", "a scheme"),
        ("/{path}", "a scheme"),
    ],
)
def test_a_template_that_cannot_be_read_back_is_refused_when_it_is_made(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)) as caught:
        UriTemplate(text)
    assert caught.value.key == "uri"
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "uri", ["", "app", "/app", "://app", "1x://app", "config://my app", "config://a\nb", "c://\u202e"]
)
def test_an_address_that_is_not_a_uri_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError):
        check_uri(uri)


def test_a_uri_stays_as_it_is_and_braces_make_it_a_template() -> None:
    assert check_uri("config://app/é?x=1") == "config://app/é?x=1"
    assert not is_template("config://app")
    assert is_template("config://{app}")


def test_a_template_knows_its_variables_and_its_literal_length() -> None:
    template = UriTemplate("x://{b}/{a}{?d,c}")
    assert template.variables == ("b", "a", "d", "c")
    assert template.weight == len("x:///")
    assert repr(template) == "UriTemplate('x://{b}/{a}{?d,c}')"
