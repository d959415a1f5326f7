//! stub
use crate::entry::*;
use crate::message::*;
pub struct View {
    pub messages: Vec<Message>,
    pub summarize: Option<u64>,
}
pub fn view(entries: &[Stamped], _w: usize, _t: usize) -> View {
    let mut m = Vec::new();
    for e in entries {
        match &e.entry {
            Entry::Started(s) => m.push(Message::User(s.text.clone())),
            Entry::Replied(r) => {
                m.push(Message::Assistant {
                    text: r.text.clone(),
                    calls: r
                        .calls
                        .iter()
                        .map(|c| ModelCall {
                            id: c.id.clone(),
                            name: c.name.clone(),
                            arguments: c.arguments.clone(),
                            opaque: c.opaque.clone(),
                        })
                        .collect(),
                });
                if !r.calls.is_empty() {
                    m.push(Message::Results(
                        r.calls
                            .iter()
                            .filter_map(|c| {
                                entries.iter().find_map(|e| match &e.entry {
                                    Entry::Called(x) if x.call_id == c.id => Some(ModelResult {
                                        call_id: c.id.clone(),
                                        name: c.name.clone(),
                                        content: super::result::render(x).content,
                                        is_error: !x.outcome.is_success(),
                                    }),
                                    _ => None,
                                })
                            })
                            .collect(),
                    ))
                }
            }
            _ => {}
        }
    }
    View { messages: m, summarize: None }
}
pub fn summary_request(_e: &[Stamped], _u: u64) -> (String, String) {
    Default::default()
}
