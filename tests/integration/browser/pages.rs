//! Pages are read as a person sees them, and used as a person would.

use super::*;

/// One a line. Words that begin with `unseen` are drawn nowhere.
const FRAGMENTS: &str = include_str!("fragments.html");

/// What pages hold, and the content that is read from it.
const READ: [(&str, &str); 9] = [
    (
        "<table><tr><th>Plan<th>Price</tr><tr><td><p>Starter</p><td><div>9 EUR</div></tr></table>",
        "| Plan | Price |\n| --- | --- |\n| Starter | 9 EUR |",
    ),
    (
        "<table><tr><th>Feature<th>List<tr><td><dl><dt>x<dd>y</dl><td><ul><li>a<li>b</ul></table>",
        "| Feature | List |\n| --- | --- |\n| x : y | - a - b |",
    ),
    (
        "<table><tr><th>Name</tr><tr style=display:none><td>Harry</td></tr><tr><td>Anna</td></tr></table>",
        "| Name |\n| --- |\n| Anna |",
    ),
    ("<p>a</p><p style=visibility:hidden>Wrong password</p><p style=opacity:0>Transparent</p>", "a"),
    (
        "<table><tr><th>Region<th>Year<th>Sales<tr><td rowspan=2>North<td>2023<td>10<tr><td>2024<td>12\
         <tr><td colspan=2>South<td>7</table>",
        "| Region | Year | Sales |\n| --- | --- | --- |\n| North | 2023 | 10 |\n| North | 2024 | 12 |\n| South |  | 7 |",
    ),
    (
        "<a href=http://a.example/1><div>Blue shoes</div></a><h2><div>Head</div></h2><a href=http://a.example/2>inline</a>",
        "[Blue shoes](http://a.example/1)\n\n## Head\n\n[inline](http://a.example/2)",
    ),
    ("<a href=http://a.example/1><h3>Title</h3><p>9 EUR</p></a>", "### [Title](http://a.example/1)\n\n9 EUR"),
    (
        "<pre>a = 1<br>b = 2</pre><table><caption>Sales</caption><tr><th>x<tr><td>y</table><ol start=0><li>zero<li>one</ol>",
        "```\na = 1\nb = 2\n```\n\nSales\n\n| x |\n| --- |\n| y |\n\n0. zero\n\n1. one",
    ),
    ("10<sup>6</sup> H<sub>2</sub>O <del>9</del> 8 <b>bold </b>text", "10^6^ H~2~O ~~9~~ 8 **bold** text"),
];

const FORMS: &str = "<input aria-label=Q onkeyup=\"o.textContent='filter '+this.value\"><p id=o>none</p>\
    <input aria-label=Digits onkeypress=\"return event.key>='0'&&event.key<='9'\">\
    <input aria-label=First oninput=\"this.nextElementSibling.focus()\"><input aria-label=Second>\
    <button>Sign<br>in</button><label for=r>A<div>b</div>c</label><input id=r>\
    <input type=checkbox id=c style=display:none><label for=c>Dark mode</label>\
    <select aria-label=Twins><option>One<option disabled>Dis<option>Dis</select>\
    <img usemap=#m width=100 height=100 src='data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7'>\
    <map name=m><area shape=rect coords=0,0,50,50 href=/none alt='Area link'></map>";

/// A menu for narrow windows, one below a link, one over its own head, and one that waits.
const MENUS: &str = "<style>li ul,.narrow{display:none}li:hover ul{display:block}.over ul{position:absolute;inset:0}\
    .over{position:relative;width:9em;height:3em}.slow ul{display:block;visibility:hidden}\
    .slow:hover ul{visibility:visible;transition:visibility 0s .2s}</style>\
    <div class=narrow><li class=m>Hidden</div><ul><li class=m><a href=/other>Products</a><ul><li><a href=/none>Shoes</a></ul>\
    <li class='m over'><span>Account</span><ul><li><a href=/none>Orders</a></ul>\
    <li class='m slow'><span>Help</span><ul><li><a href=/none>Contact</a></ul></ul>";

fn pages(seen: &Seen) -> Reply {
    let sections = |parts: &mut dyn Iterator<Item = &str>| -> String {
        parts.enumerate().map(|(i, it)| format!("<section id=f{i}>{it}</section>\n")).collect()
    };
    match seen.path() {
        "/fragments" => page(format!(
            "{}<script>for(const it of document.querySelectorAll('[id^=f]')){{const pre=document.createElement('pre');\
             pre.id='inner-'+it.id;pre.textContent=it.innerText;document.body.append(pre)}}</script>",
            sections(&mut FRAGMENTS.lines())
        )),
        "/read" => page(sections(&mut READ.iter().map(|(html, _)| *html))),
        "/forms" => page(FORMS),
        "/menus" => page(MENUS),
        "/document.pdf" => Reply::new(200, "application/pdf", crate::research::pdf("Dues: 42")),
        "/named" => Reply::new(200, "text/plain", "x")
            .with("content-disposition", "attachment; filename*=UTF-8''%E6%97%A5%E6%9C%AC.txt"),
        "/blob" => page(
            "<a id=a download='Übersicht 日本 2025.csv'>Export</a><script>a.href=URL.createObjectURL(new Blob(['x']))</script>",
        ),
        _ => Reply::new(404, "text/html", "<p>Not here, but a page</p>"),
    }
}

async fn content(stage: &Stage, selector: &str) -> String {
    let read = stage.does("get_content", json!({"selector": selector})).await;
    read["content"].as_str().unwrap().to_owned()
}

/// A text without white space, marks of Markdown, and targets of links.
fn bare(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(at) = text.find("](") {
        let end = text[at..].find(')').map_or(text.len(), |it| at + it + 1);
        text.replace_range(at..end, "");
    }
    text.chars().filter(|it| !it.is_whitespace() && !"*_#|>`~^[]!\\-".contains(*it)).collect()
}

#[tokio::test]
async fn content_has_each_word_that_is_drawn_in_order_and_none_that_is_not() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/fragments").await;
    let fragments: Vec<&str> = FRAGMENTS.lines().collect();
    assert!(fragments.len() > 40, "{}", fragments.len());
    for (i, fragment) in fragments.iter().enumerate() {
        let (read, drawn) = (content(&stage, &format!("#f{i}")).await, content(&stage, &format!("#inner-f{i}")).await);
        assert!(!read.contains("unseen"), "{fragment}\n{read}");
        let (bare_read, mut at) = (bare(&read), 0);
        // The browser's own text has what is transparent or has no size.
        for word in drawn.split_whitespace().filter(|it| !it.contains("unseen")).map(bare) {
            let found = bare_read[at..].find(&word);
            at += found.unwrap_or_else(|| panic!("'{word}' of {fragment}\n{read}")) + word.len();
        }
    }
}

#[tokio::test]
async fn tables_links_and_headings_keep_the_text_of_blocks_in_them() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/read").await;
    for (i, (html, wanted)) in READ.iter().enumerate() {
        assert_eq!(content(&stage, &format!("#f{i}")).await, *wanted, "{html}");
    }
    let found = stage.does("extract_content", json!({"goal": "price of the plan Starter"})).await;
    let mut texts = found["blocks"].as_array().unwrap().iter().filter_map(|it| it["text"].as_str());
    assert!(texts.any(|it| it.contains("| Starter | 9 EUR |")), "{found}");
}

#[tokio::test]
async fn text_is_typed_with_keys_and_the_answer_says_where_it_went() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/forms").await;
    let types = |field: &'static str, text: &'static str| {
        let stage = &stage;
        async move {
            let number = stage.number(&format!("textbox \"{field}\"")).await;
            stage.does("input_text", json!({"index": number, "text": text})).await
        }
    };
    let filtered = types("Q", "abc").await;
    assert!(lines(&filtered["text"]).contains("filter abc"), "{filtered}");
    let long = types(
        "Q",
        "ü b2 日本, and much more than the part of a text that is typed key by key, so that its begin is inserted",
    )
    .await;
    assert!(lines(&long["text"]).contains("filter ü b2 日本, and"), "{long}");
    assert!(!long["done"].as_str().unwrap().contains("changed the text"), "{long}");
    let guarded = types("Digits", "12ab").await;
    assert!(guarded["done"].as_str().unwrap().contains("the field changed the text to \"12\""), "{guarded}");
    let moved = types("First", "ab").await;
    assert!(moved["done"].as_str().unwrap().contains("the focus moved to another element"), "{moved}");
}

#[tokio::test]
async fn names_states_and_areas_are_those_that_a_person_sees() {
    let Some(stage) = Stage::start(pages).await else { return };
    let opened = stage.opens("/forms").await;
    let listed = lines(&opened["new"]);
    for element in ["button \"Sign in\"", "textbox \"A b c\"", "label \"Dark mode\" unchecked", "link \"Area link\""] {
        assert!(listed.contains(element), "{element}: {listed}");
    }
    let pressed = stage.does("click_element", json!({"index": stage.number("Dark mode").await})).await;
    assert!(lines(&pressed["altered"]).contains("label \"Dark mode\" checked"), "{pressed}");
    let twins = stage.number("Twins").await;
    let chosen = stage.does("select_dropdown_option", json!({"index": twins, "text": "Dis"})).await;
    assert!(chosen["done"].as_str().unwrap().contains("another option has this text"), "{chosen}");
    let gone = stage.does("click_element", json!({"index": stage.number("Area link").await})).await;
    assert_eq!((&gone["url"], &gone["status"]), (&json!(stage.server.url("/none")), &json!(404)), "{gone}");
}

#[tokio::test]
async fn documents_other_than_pages_are_downloaded_under_their_names() {
    let Some(stage) = Stage::start(pages).await else { return };
    for (path, name) in
        [("/document.pdf", "document.pdf"), ("/named", "日本.txt"), ("/blob", "Übersicht 日本 2025.csv")]
    {
        let mut result = stage.call("navigate", json!({"url": stage.server.url(path)})).await;
        if path == "/blob" {
            result = stage.call("click_element", json!({"index": stage.number("Export").await})).await;
        }
        for _ in 0..100 {
            if !result.artifacts.is_empty() {
                break;
            }
            result = stage.call("wait", json!({"seconds": 0.1})).await;
        }
        assert_eq!(result.artifacts.first().map(|it| it.name.as_str()), Some(name), "{result:?}");
        if path == "/document.pdf" {
            assert_eq!(result.artifacts[0].media_type, "application/pdf");
            let entry = &data(&result)["downloads"][0];
            let is_missing =
                entry["note"].as_str().is_some_and(|it| it.contains("the openskill-readers program is not"));
            assert!(entry["text"] == "Dues: 42" || is_missing, "{entry}");
        }
    }
}

#[tokio::test]
async fn menus_open_under_the_pointer_and_are_used() {
    let Some(stage) = Stage::start(pages).await else { return };
    let opened = stage.opens("/menus").await;
    for (selector, entry) in [(".m", "Shoes"), (".over", "Orders"), (".slow", "Contact")] {
        assert!(!lines(&opened["new"]).contains(entry), "{opened}");
        let hovered = stage.does("hover_element", json!({"selector": selector})).await;
        assert!(lines(&hovered["new"]).contains(&format!("link \"{entry}\"")), "{hovered}");
    }
    let entry = stage.number("Contact").await;
    stage.does("hover_element", json!({"index": entry, "selector": ""})).await;
    let pressed = stage.does("click_element", json!({"index": entry})).await;
    assert_eq!(pressed["url"], stage.server.url("/none"), "{pressed}");
    for target in [json!({}), json!({"index": 1, "selector": "p"})] {
        assert_eq!(stage.fails("hover_element", target).await.0, "INVALID_ARGUMENT");
    }
}
