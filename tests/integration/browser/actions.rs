//! What tools do on pages, and what they say of it.

use super::*;

const FORM: &str = "<button onclick=\"document.title='pressed';this.insertAdjacentHTML('afterend','<a href=/two>Two</a>')\">Send</button>\
    <input placeholder=Name><select><option>One<option>Two</select>\
    <div id=a class=source draggable=true style='width:90px;height:30px;background:#ccf'>Box</div>\
    <div class=target style='width:200px;height:90px;background:#cfc'>Goal</div>\
    <script>a.ondragstart=e=>e.dataTransfer.setData('text','it');const t=document.querySelector('.target');\
    t.ondragover=e=>e.preventDefault();t.ondrop=e=>{e.preventDefault();t.textContent='got '+e.dataTransfer.getData('text')}</script>";

fn pages(seen: &Seen) -> Reply {
    match seen.path() {
        "/form" => page(FORM),
        "/slow-drag" => page(
            "<div class=source style='width:90px;height:30px;background:#ccf'>Box</div>\
             <div class=target style='width:200px;height:90px;background:#cfc'>Goal</div>\
             <script>let held=false;onmousedown=()=>held=true;\
             onmousemove=()=>{const end=performance.now()+100;while(held&&performance.now()<end);};\
             onmouseup=e=>{held=false;document.title='up on '+e.target.className}</script>",
        ),
        "/two" => {
            page("<h1>The second page</h1><table><tr><th>River<th>Length</tr><tr><td>Rhine<td>1233 km</tr></table>")
        }
        "/frames" => {
            let port = seen.header("host").rsplit(':').next().unwrap_or_default().to_owned();
            page(format!("<iframe src=/inner></iframe><iframe src=http://localhost:{port}/inner></iframe>"))
        }
        "/inner" => page("<button onclick=\"this.textContent='pressed here'\">Inner</button>"),
        "/covers" => page(
            "<iframe src=/inner style='position:absolute;left:300px;top:200px'></iframe>\
             <button id=b style='position:absolute;left:20px;top:20px' onclick=\"document.title='pressed'\">Outer</button>\
             <script>let late=false;b.onmouseenter=()=>{if(!late)return;document.body.insertAdjacentHTML('beforeend',\
             '<div style=\"position:fixed;inset:0;background:#fff\"><button>Cover</button></div>')};\
             b.addEventListener('click',()=>late=true)</script>",
        ),
        "/views" => page(
            "<script>const show=()=>setTimeout(()=>document.body.innerHTML='<button>'+(location.hash||'#first')+'</button>',25);\
             show();onpopstate=show;setTimeout(()=>history.pushState(0,'','#second')||show(),100)</script>",
        ),
        "/busy" => page(
            "<script>addEventListener('DOMContentLoaded',e=>e.stopImmediatePropagation(),true);\
             setInterval(()=>document.title=String(performance.now()),20)</script>",
        ),
        "/shortly" => page(
            "<body onload=\"setTimeout(()=>document.body.insertAdjacentHTML('beforeend','<button>Shortly</button>'),20)\">",
        ),
        "/removes-script" => page(
            "<p id=p>Press me</p><script>p.addEventListener('click',()=>0);document.currentScript.remove();\
             setTimeout(()=>document.body.insertAdjacentHTML('beforeend','<button>Shortly</button>'),20)</script>",
        ),
        "/fades-in" => page("<style>@keyframes in{from{opacity:0}}a{animation:in .2s}</style><a href=/two>Shortly</a>"),
        "/refreshes" => page("<a href=/form>Not for long</a>").with("refresh", "0;url=/two"),
        "/handlers" => page("<p oncontextmenu=\"document.title='menu'\">Has a menu</p><p>Has none</p>"),
        "/dialogs" => page(
            "<button onclick=\"alert('one')\">Alert</button>\
             <button onclick=\"document.title=String(confirm('sure?'))+prompt('name?')\">Ask</button>",
        ),
        "/tabs" => page("<a href=/two target=_blank>New tab</a>"),
        "/file" => Reply::new(200, "application/octet-stream", "the file")
            .with("content-disposition", "attachment; filename=f.bin"),
        "/files" => page("<a href=/file>File</a>"),
        _ => page("elsewhere"),
    }
}

#[tokio::test]
async fn a_page_is_read_clicked_typed_into_and_chosen_from() {
    let Some(stage) = Stage::start(pages).await else { return };
    let opened = stage.opens("/form").await;
    assert_eq!((&opened["new_page"], &opened["title"]), (&json!(true), &json!("A page")), "{opened}");
    let number = |text| number_in(&opened["new"], text).unwrap();
    let (send, name, choice) = (number("Send"), number("Name"), number("combobox"));
    let clicked = stage.does("click_element", json!({"index": send})).await;
    assert_eq!(clicked["title"], "pressed", "{clicked}");
    assert!(lines(&clicked["new"]).contains("link \"Two\""), "{clicked}");
    assert!(!lines(&clicked["new"]).contains("Name"), "only what changed: {clicked}");
    let typed = stage.does("input_text", json!({"index": name, "text": "Ada"})).await;
    assert!(lines(&typed["altered"]).contains("value \"Ada\""), "{typed}");
    let replaced = stage.does("input_text", json!({"index": name, "text": "Bo"})).await;
    assert!(lines(&replaced["altered"]).contains("value \"Bo\""), "{replaced}");
    let options = stage.does("get_dropdown_options", json!({"index": choice})).await;
    assert_eq!(options["options"].as_array().unwrap().len(), 2, "{options}");
    let chosen = stage.does("select_dropdown_option", json!({"index": choice, "text": "Two"})).await;
    assert!(lines(&chosen["altered"]).contains("value \"Two\""), "{chosen}");
    let (failed, why) = stage.fails("select_dropdown_option", json!({"index": choice, "text": "Nine"})).await;
    assert_eq!(failed, "NOT_FOUND", "{why}");
    // Keys go to the field that has the focus.
    stage.does("input_text", json!({"index": name, "text": "abc"})).await;
    stage.does("send_keys", json!({"keys": "Shift+Home"})).await;
    let deleted = stage.does("send_keys", json!({"keys": "Delete"})).await;
    let altered = lines(&deleted["altered"]);
    assert!(altered.contains("(was: textbox \"Name\" value \"abc\""), "{deleted}");
    assert!(!altered.split("(was").next().unwrap().contains("abc"), "{deleted}");
}

#[tokio::test]
async fn a_drag_of_the_pages_own_kind_drops_its_data() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/form").await;
    let dragged = stage.does("drag_drop", json!({"element_source": ".source", "element_target": ".target"})).await;
    let content = stage.does("get_content", json!({"selector": ".target"})).await;
    assert_eq!(content["content"], "got it", "{dragged}");
    let (code, _) = stage.fails("drag_drop", json!({"element_source": ".source", "element_target": ".none"})).await;
    assert_eq!(code, "NOT_FOUND");
    let (code, why) = stage.fails("drag_drop", json!({"element_source": ".source"})).await;
    assert_eq!(code, "INVALID_ARGUMENT", "{why}");
}

#[tokio::test]
async fn a_drag_that_nobody_waits_for_any_more_ends_where_it_began() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/slow-drag").await;
    let drag = json!({"element_source": ".source", "element_target": ".target", "steps": 200});
    let call = InvokeRequest { session_id: "s".to_owned(), timeout_ms: 2000, ..request("browser_drag_drop", drag) };
    let result = stage.system.invoke(call).await;
    assert_eq!(code(&result), "TIMEOUT", "{result:?}");
    // The page hears that the button is up, at the source.
    let mut waited = stage.call("wait", json!({"seconds": 0.1})).await;
    for _ in 0..100 {
        if code(&waited).is_empty() && data(&waited)["title"] == "up on source" {
            break;
        }
        waited = stage.call("wait", json!({"seconds": 0.1})).await;
    }
    assert_eq!(data(&waited)["title"], "up on source", "{waited:?}");
    // Nothing is intercepted any more: a drag of the page's own kind drops its data.
    stage.opens("/form").await;
    stage.does("drag_drop", json!({"element_source": ".source", "element_target": ".target"})).await;
    let content = stage.does("get_content", json!({"selector": ".target"})).await;
    assert_eq!(content["content"], "got it");
}

#[tokio::test]
async fn elements_of_frames_are_pressed_where_they_are_whatever_their_origin() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/frames").await;
    for _ in 0..2 {
        // The number of the first frame's button stays; the second time it is the other one's.
        let number = stage.number("button \"Inner\"").await;
        let clicked = stage.does("click_element", json!({"index": number})).await;
        assert!(lines(&clicked["altered"]).contains(&format!("[{number}] button \"pressed here\"")), "{clicked}");
    }
    let info = stage.does("get_page_info", json!({})).await;
    assert_eq!(lines(&info["elements"]).matches("pressed here").count(), 2, "{info}");
}

#[tokio::test]
async fn a_number_of_a_page_that_is_gone_is_refused() {
    let Some(stage) = Stage::start(pages).await else { return };
    let opened = stage.opens("/form").await;
    let send = number_in(&opened["new"], "Send").unwrap();
    stage.opens("/two").await;
    let (code, why) = stage.fails("click_element", json!({"index": send})).await;
    assert!(code == "NOT_FOUND" && why.contains("earlier page"), "{why}");
    let (code, why) = stage.fails("click_element", json!({"index": 9999})).await;
    assert!(code == "NOT_FOUND" && why.contains("[9999]"), "{why}");
    let back = stage.does("go_back", json!({})).await;
    assert!(back["url"].as_str().unwrap().ends_with("/form"), "{back}");
    let (code, why) = stage.fails("go_back", json!({})).await;
    assert_eq!(code, "INVALID_ARGUMENT", "{why}");
}

#[tokio::test]
async fn what_hovering_brings_over_an_element_is_not_pressed() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/covers").await;
    let outer = stage.number("Outer").await;
    let pressed = stage.does("click_element", json!({"index": outer})).await;
    assert_eq!(pressed["title"], "pressed", "{pressed}");
    // The page does not see the pointer in its frame, and remembers where it was.
    stage.does("click_element", json!({"index": stage.number("Inner").await})).await;
    let (code, why) = stage.fails("click_element", json!({"index": outer})).await;
    assert!(code == "EXECUTION_ERROR" && why.contains("covered"), "{code}: {why}");
}

#[tokio::test]
async fn a_view_that_a_page_shows_a_little_later_is_waited_for() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/views").await;
    until("the second view", PATIENCE, || async {
        let info = stage.does("get_page_info", json!({})).await;
        lines(&info["elements"]).contains("#second").then_some(())
    })
    .await;
    let back = stage.does("go_back", json!({})).await;
    assert!(lines(&back["new"]).contains("#first"), "{back}");
}

#[tokio::test]
async fn a_page_that_keeps_events_from_its_watch_counts_as_changing() {
    let Some(stage) = Stage::start(pages).await else { return };
    let opened = stage.opens("/busy").await;
    assert!(opened["note"].as_str().unwrap_or_default().contains("changing"), "{opened}");
}

#[tokio::test]
async fn what_comes_shortly_without_a_script_that_can_be_seen_is_waited_for() {
    let Some(stage) = Stage::start(pages).await else { return };
    for path in ["/shortly", "/removes-script", "/fades-in"] {
        let opened = stage.opens(path).await;
        assert!(lines(&opened["new"]).contains("Shortly"), "{path}: {opened}");
        assert!(path != "/removes-script" || lines(&opened["new"]).contains("Press me"), "{opened}");
    }
    let opened = stage.opens("/refreshes").await;
    assert_eq!(opened["url"], stage.server.url("/two"), "{opened}");
}

#[tokio::test]
async fn elements_with_event_handler_attributes_are_listed() {
    let Some(stage) = Stage::start(pages).await else { return };
    let opened = stage.opens("/handlers").await;
    let listed = lines(&opened["new"]);
    assert!(listed.contains("Has a menu") && !listed.contains("Has none"), "{opened}");
}

#[tokio::test]
async fn content_is_markdown_and_what_fits_a_goal_has_its_place() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/two").await;
    let content = stage.does("get_content", json!({})).await["content"].as_str().unwrap().to_owned();
    assert!(content.contains("# The second page") && content.contains("| Rhine | 1233 km |"), "{content}");
    let found = stage.does("extract_content", json!({"goal": "the length of the Rhine"})).await;
    assert!(found["blocks"][0]["text"].as_str().unwrap().contains("1233 km"), "{found}");
    let tree = stage.does("get_ax_tree", json!({"number_of_elements": 3})).await;
    assert!(tree["lines"].as_array().unwrap().len() <= 3 && tree["cut"].is_string(), "{tree}");
    let url = stage.does("get_current_url", json!({})).await;
    assert_eq!(url, json!({"url": stage.server.url("/two")}));
}

#[tokio::test]
async fn dialogs_are_answered_by_rule_and_reported() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/dialogs").await;
    let alert = stage.does("click_element", json!({"index": stage.number("Alert").await})).await;
    assert!(lines(&alert["events"]).contains("(alert): \"one\""), "{alert}");
    let asked = stage.does("click_element", json!({"index": stage.number("Ask").await})).await;
    assert_eq!(asked["title"], "falsenull", "no to both: {asked}");
    assert_eq!(asked["events"].as_array().unwrap().len(), 2, "{asked}");
}

#[tokio::test]
async fn tabs_keep_their_numbers() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/tabs").await;
    let clicked = stage.does("click_element", json!({"index": stage.number("New tab").await})).await;
    assert!(lines(&clicked["events"]).contains("page_id 1") && clicked["page_id"] == 0, "{clicked}");
    let shown = stage.does("switch_tab", json!({"page_id": 1})).await;
    assert!(shown["url"].as_str().unwrap().ends_with("/two"), "{shown}");
    let opened = stage.does("open_tab", json!({"url": stage.server.url("/form")})).await;
    assert_eq!(opened["page_id"], 2, "{opened}");
    let closed = stage.does("close_tab", json!({"page_id": 1})).await;
    assert_eq!(closed["page_id"], 2, "{closed}");
    let (code, why) = stage.fails("switch_tab", json!({"page_id": 1})).await;
    assert!(code == "INVALID_ARGUMENT" && why.contains("0, 2"), "{why}");
}

#[tokio::test]
async fn pictures_documents_and_downloads_are_artifacts() {
    let Some(stage) = Stage::start(pages).await else { return };
    stage.opens("/files").await;
    let picture = stage.call("screenshot", json!({"filename": "a"})).await;
    assert_eq!((data(&picture)["path"].as_str(), picture.artifacts.len()), (Some("data/a.png"), 1), "{picture:?}");
    let again = stage.does("screenshot", json!({"filename": "a.png"})).await;
    assert_eq!(again["path"], "data/a-2.png", "what is there stays as it is");
    let document = stage.call("save_pdf", json!({})).await;
    assert_eq!(
        (data(&document)["path"].as_str(), document.artifacts.len()),
        (Some("data/page.pdf"), 1),
        "{document:?}"
    );
    let (code, _) = stage.fails("screenshot", json!({"filename": "../a.png"})).await;
    assert_eq!(code, "FORBIDDEN_PATH");
    let mut result = stage.call("click_element", json!({"index": stage.number("File").await})).await;
    while data(&result)["downloads"][0]["outcome"] == "still running" {
        result = stage.call("wait", json!({"seconds": 0.1})).await;
    }
    assert_eq!(data(&result)["downloads"][0]["bytes"], 8, "{result:?}");
    assert_eq!((result.artifacts.len(), result.artifacts[0].name.as_str()), (1, "f.bin"), "{result:?}");
}

#[tokio::test]
async fn a_search_shows_results_and_a_captcha_is_an_error_that_says_so() {
    let results = |seen: &Seen| match seen.target.as_str() {
        "/find?q=two+words+%26" => page("<a href=/two>A result</a>"),
        _ => page("<p>Our systems have detected unusual traffic from your computer network."),
    };
    let server = Backend::start(results).await;
    let engine = format!("http://{}/find?q={{query}}", server.address);
    let address = server.address;
    let set = |it: Setup| it.with("OPENSKILL_BROWSER_SEARCH_URL", engine).with("OPENSKILL_BROWSER_ALLOW", address);
    let Some(stage) = Stage::start_with(results, set).await else { return };
    let found = stage.does("search_google", json!({"query": "two words &"})).await;
    assert!(found["content"].as_str().unwrap().contains("A result"), "{found}");
    let (code, why) = stage.fails("search_google", json!({"query": "robots"})).await;
    assert!(code == "EXECUTION_ERROR" && why.contains("captcha"), "{why}");
}
