//! Nothing that a page does reaches a listener that the worker's rules keep from it.

use openskill_tests::folder::Folder;
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
    // One more for IPv6 alone, where the machine has it.
    let trap_v6 = TcpListener::bind(("::1", port)).await.ok();
    let hosts = [
        format!("127.0.0.1:{port}"),
        format!("[::1]:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::ffff:7f00:1]:{port}"),
        format!("[::]:{port}"),
        format!("[0:0:0:0:0:0:0:1]:{port}"),
        format!("[64:ff9b::7f00:1]:{port}"),
        format!("[2002:7f00:1::]:{port}"),
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
    let (to, to_v6) = (format!("127.0.0.1:{port}"), format!("[::1]:{port}"));
    let pages = move |seen: &Seen| match seen.path().split_once("/to/") {
        Some((_, number)) => Reply::redirect(302, &format!("http://{}/", redirects[number.parse::<usize>().unwrap()])),
        None if seen.path() == "/attacks-v6" => attacks(&to_v6),
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
    until_tried(&stage).await;
    // From an IPv6 trap alone too: the page's own attacks, and nothing falls back to it.
    if trap_v6.is_some() {
        stage.opens("/attacks-v6").await;
        until_tried(&stage).await;
    }
    for trap in [Some(trap), trap_v6].into_iter().flatten() {
        reached_by_nobody(&trap).await;
    }
}

/// Waits until a page of attacks has tried everything.
async fn until_tried(stage: &Stage) {
    let mut tried = 0;
    while stage.does("wait", json!({"seconds": 0.2})).await["title"] != "all tried" {
        tried += 1;
        assert!(tried < 300, "the page did not try everything");
    }
}

/// Whoever connected is in the listener's queue by now, or a moment later.
async fn reached_by_nobody(trap: &TcpListener) {
    let accepted = tokio::time::timeout(Duration::from_millis(300), trap.accept()).await;
    assert!(accepted.is_err(), "somebody connected: {accepted:?}");
}

/// A page that asks its own name again, by everything that opens a connection, once that name has moved.
const MOVES: &str = "<script>const tried=[];const end=it=>{tried.push(it);if(tried.length==3)document.title='all tried'};\
    fetch('/move').then(it=>it.text()).then(async()=>{\
    for(let i=0;i<4;i++)await fetch('/again?'+i).then(()=>document.body.append('reached'),()=>0);end('fetch');\
    const socket=new WebSocket('ws://'+location.host+'/socket');socket.onerror=()=>end('socket');\
    const frame=document.createElement('iframe');frame.onload=()=>end('frame');frame.src='/frame';document.body.append(frame)\
    })</script>";

#[tokio::test]
async fn a_name_that_moves_to_this_machine_reaches_nothing_there() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Jail, "only root gives a process a file of hosts of its own");
        return;
    }
    // The address that the name has first is allowed, as those of the internet are; the one that it moves to is not.
    let trap = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = trap.local_addr().unwrap().port();
    let folder = Folder::new();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.2 moving.test\n").unwrap();
    let (file, listener) = (hosts.clone(), TcpListener::bind(("127.0.0.2", port)).await.unwrap());
    let stranger = Backend::on(listener, move |seen| {
        if seen.path() == "/move" {
            std::fs::write(&file, "127.0.0.1 moving.test\n").unwrap();
        }
        // Each request is to need a connection, and each connection an address.
        page(if seen.path() == "/" { MOVES } else { "moved" }).with("connection", "close")
    });
    let mount = format!("mount --bind {} /etc/hosts && exec \"$0\" \"$@\"", hosts.display());
    let set = |it: Setup| {
        let it = it.with("OPENSKILL_BROWSER_ALLOW", format!("127.0.0.2:{port}"));
        it.through(&["unshare", "--mount", "--propagation", "private", "sh", "-c", &mount])
    };
    let Some(stage) = Stage::start_with(|_| page("unused"), set).await else { return };
    let url = json!({"url": format!("http://moving.test:{port}/")});
    stage.does("navigate", url.clone()).await;
    until_tried(&stage).await;
    let content = stage.does("get_content", json!({})).await["content"].as_str().unwrap().to_owned();
    assert!(!content.contains("reached"), "{content}");
    let (code, why) = stage.fails("navigate", url).await;
    assert!(code == "PERMISSION_DENIED" && why.contains("loopback"), "{code}: {why}");
    let targets: Vec<String> = stranger.seen().into_iter().map(|it| it.target).collect();
    assert_eq!(targets.iter().filter(|it| *it != "/favicon.ico").collect::<Vec<_>>(), ["/", "/move"], "{targets:?}");
    reached_by_nobody(&trap).await;
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
