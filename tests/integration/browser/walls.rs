//! Nothing that a page does reaches a listener that the worker's rules keep from it.

use tokio::net::TcpListener;

use super::*;

/// A page that tries everything that a page can connect with.
fn attacks(to: &str) -> Reply {
    page(format!(
        "<h1>Attacks</h1><iframe src='http://{to}/frame'></iframe><img src='http://{to}/image'>\
         <link rel=prefetch href='http://{to}/prefetch'><link rel=preconnect href='http://{to}/'>\
         <link rel=dns-prefetch href='//{to}/'><link rel=stylesheet href='http://{to}/style'>\
         <script src='http://{to}/script'></script><object data='http://{to}/object'></object>\
         <video src='http://{to}/video' autoplay muted></video>\
         <script>const at='{to}', tried=[];\
         const end=name=>{{tried.push(name);if(tried.length==5)document.title='all tried'}};\
         fetch('http://'+at+'/fetch',{{mode:'no-cors'}}).finally(()=>end('fetch')).catch(()=>0);\
         const socket=new WebSocket('ws://'+at+'/socket');socket.onerror=()=>end('socket');\
         const code=`fetch('http://${{at}}/worker',{{mode:'no-cors'}}).catch(()=>0).finally(()=>postMessage(1))`;\
         new Worker(URL.createObjectURL(new Blob([code]))).onmessage=()=>end('worker');\
         navigator.sendBeacon('http://'+at+'/beacon','x');end('beacon');\
         const source=new EventSource('http://'+at+'/events');source.onerror=()=>{{source.close();end('events')}};\
         const [host,port]=[at.slice(0,at.lastIndexOf(':')),at.slice(at.lastIndexOf(':')+1)];\
         const peer=new RTCPeerConnection({{iceServers:[{{urls:`stun:${{host}}:${{port}}?transport=tcp`.replace('?transport=tcp','')}},\
         {{urls:`turn:${{host}}:${{port}}?transport=tcp`,username:'u',credential:'c'}}]}});\
         peer.createDataChannel('x');\
         peer.createOffer().then(it=>peer.setLocalDescription(it));</script>"
    ))
}

#[tokio::test]
async fn no_address_of_this_machine_or_of_a_private_network_is_reached() {
    let trap = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = trap.local_addr().unwrap().port();
    let hosts = [
        format!("127.0.0.1:{port}"),
        format!("[::1]:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::ffff:7f00:1]:{port}"),
        format!("0.0.0.0:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f.1:{port}"),
        format!("127.1:{port}"),
        format!("localhost:{port}"),
        format!("x.localhost:{port}"),
        "169.254.169.254".to_owned(),
        "metadata.google.internal".to_owned(),
        "10.0.0.1".to_owned(),
    ];
    let redirects = hosts.clone();
    let to = format!("127.0.0.1:{port}");
    let pages = move |seen: &Seen| match seen.path().split_once("/to/") {
        Some((_, number)) => Reply::redirect(302, &format!("http://{}/", redirects[number.parse::<usize>().unwrap()])),
        None => attacks(&to),
    };
    let Some(stage) = Stage::start(pages).await else { return };
    for (number, host) in hosts.iter().enumerate() {
        for url in [format!("http://{host}/"), stage.server.url(&format!("/to/{number}"))] {
            let (code, why) = stage.fails("navigate", json!({"url": url})).await;
            assert!(["PERMISSION_DENIED", "NETWORK_ERROR"].contains(&code.as_str()), "{url}: {code} {why}");
            let is_named = why.contains("OPENSKILL_BROWSER_ALLOW") || why.contains("resolved") || why.contains("ERR_");
            assert!(is_named, "{url}: {why}");
        }
    }
    stage.opens("/attacks").await;
    let mut tried = 0;
    while stage.does("wait", json!({"seconds": 0.2})).await["title"] != "all tried" {
        tried += 1;
        assert!(tried < 300, "the page did not try everything");
    }
    let accepted = tokio::time::timeout(Duration::from_millis(300), trap.accept()).await;
    assert!(accepted.is_err(), "somebody connected: {accepted:?}");
}

#[tokio::test]
async fn only_addresses_of_the_web_are_opened() {
    let Some(stage) =
        Stage::start(|_| page("<a href=file:///etc/passwd>File</a><a href=chrome://version>Own</a>")).await
    else {
        return;
    };
    for url in
        ["file:///etc/passwd", "chrome://version", "view-source:http://a.example", "devtools://x", "data:text/html,x"]
    {
        let (code, why) = stage.fails("navigate", json!({"url": url})).await;
        assert!(code == "INVALID_ARGUMENT" && why.contains("http://"), "{url}: {why}");
    }
    stage.opens("/").await;
    for name in ["File", "Own"] {
        let clicked = stage.does("click_element", json!({"index": stage.number(name).await})).await;
        assert_eq!(clicked["url"], json!(stage.server.url("/")), "{clicked}");
    }
}

#[tokio::test]
async fn two_sessions_share_nothing() {
    let pages = |seen: &Seen| {
        let cookie = seen.headers.get("cookie").map(|it| it.to_str().unwrap_or_default().to_owned());
        page(format!(
            "<p>cookie: {}<p id=s></p><script>s.textContent='kept: '+localStorage.kept;localStorage.kept='mine';\
             document.cookie='of=script'</script>",
            cookie.unwrap_or_else(|| "none".to_owned())
        ))
        .with("set-cookie", "of=server; Path=/")
        .with("cache-control", "max-age=1000")
    };
    let Some(stage) = Stage::start(pages).await else { return };
    let url = json!({"url": stage.server.url("/")});
    for session in ["one", "two"] {
        stage.does_as(session, "navigate", url.clone()).await;
        let first = stage.does_as(session, "get_content", json!({})).await["content"].as_str().unwrap().to_owned();
        assert!(first.contains("cookie: none") && first.contains("kept: undefined"), "{session}: {first}");
    }
    stage.does_as("one", "navigate", json!({"url": stage.server.url("/?again")})).await;
    let again = stage.does_as("one", "get_content", json!({})).await["content"].as_str().unwrap().to_owned();
    assert!(again.contains("of=") && again.contains("kept: mine"), "{again}");
    let other = Backend::start(|_| page("other")).await;
    let (code, _) = stage.fails("navigate", json!({"url": other.url("/")})).await;
    assert_eq!(code, "PERMISSION_DENIED", "only the listed port");
    assert_eq!(other.connections(), 0);
}
