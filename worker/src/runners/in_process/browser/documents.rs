//! The script in the documents of pages: each has one in an isolated world, which the page's own scripts can't reach.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use openskill_cdp::client::{CallError, Client};
use serde_json::{Value, json};

use super::page::{SCRIPT, WORLD};
use super::problem::Problem;
use crate::untrusted_json;

/// How long one call of the script may take. Its own budgets are shorter.
const OF_SCRIPT: Duration = Duration::from_secs(5);

/// Documents that are remembered. The oldest go first.
const MOST: usize = 256;

/// Objects of the page that the script is given.
pub(super) const GROUP: &str = "openskill";

/// Which document of which frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The session of its process.
    pub(super) session: String,
    pub(super) frame: String,
    /// Names the document in its frame.
    pub(super) loader: String,
}

/// A document with the script in it. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// Unique in this browser, never used again.
    pub(super) key: u64,
    pub(super) place: Place,
    /// Its isolated world.
    pub(super) context: i64,
    /// The script's object.
    object: String,
}

/// The documents of a browser that have the script.
#[derive(Debug, Default)]
pub(super) struct Documents {
    by_place: HashMap<Place, Document>,
    last: u64,
    /// What was told to the script of each, by document.
    pub(super) heard: HashMap<u64, Heard>,
}

/// The elements with listeners that the script of a document was told of.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) nodes: HashSet<i64>,
    /// The document as an object of the page's world, once it was asked for.
    pub(super) whole: Option<String>,
}

impl Documents {
    /// The document of a place, with the script.
    ///
    /// # Errors
    /// It is gone, or the browser is late.
    pub(super) async fn open(&mut self, client: &Client, place: Place) -> Result<Document, Problem> {
        if let Some(found) = self.by_place.get(&place) {
            return Ok(found.clone());
        }
        let session = Some(place.session.as_str());
        let ask = async |method, params| client.call(session, method, &params, OF_SCRIPT).await.map_err(gone);
        let world = json!({"frameId": place.frame, "worldName": WORLD});
        let made = ask("Page.createIsolatedWorld", world).await?;
        let context = made.get("executionContextId").and_then(Value::as_i64).ok_or(Problem::Gone)?;
        let run = json!({"contextId": context, "expression": SCRIPT, "returnByValue": false});
        let started = ask("Runtime.evaluate", run).await?;
        let object = started.pointer("/result/objectId").and_then(Value::as_str).ok_or_else(|| failed(&started))?;
        self.last += 1;
        let document = Document { key: self.last, place, context, object: object.to_owned() };
        if self.by_place.len() >= MOST {
            self.forget_oldest();
        }
        self.by_place.insert(document.place.clone(), document.clone());
        Ok(document)
    }

    /// Forgets a document that is gone.
    pub(super) fn forget(&mut self, document: &Document) {
        self.by_place.remove(&document.place);
        self.heard.remove(&document.key);
    }

    fn forget_oldest(&mut self) {
        let oldest = self.by_place.values().min_by_key(|it| it.key).cloned();
        if let Some(oldest) = oldest {
            self.forget(&oldest);
        }
    }
}

impl Document {
    /// Calls a function of the script.
    ///
    /// # Errors
    /// It refuses, the document is gone, or its page does not answer.
    pub(super) async fn call(&self, client: &Client, name: &str, arguments: Value) -> Result<Value, Problem> {
        self.call_within(client, name, arguments, OF_SCRIPT).await
    }

    /// The same, within `time`.
    pub(super) async fn call_within(
        &self,
        client: &Client,
        name: &str,
        arguments: Value,
        time: Duration,
    ) -> Result<Value, Problem> {
        let arguments = json!([{"value": name}, {"value": arguments}]);
        let answer = self.run(client, "function(n,a){return this.call(n,a)}", arguments, time).await?;
        let text = answer.get("value").and_then(Value::as_str).unwrap_or_default();
        let mut answer: Value =
            untrusted_json::parse(text.as_bytes()).map_err(|_| Problem::Script("no answer".to_owned()))?;
        if answer.get("ok") == Some(&Value::Bool(true)) {
            return Ok(answer["value"].take());
        }
        Err(Problem::of_page(&answer["error"]))
    }

    /// Calls a method of the script's object with objects of the page. Gives what `Runtime.callFunctionOn` calls the result.
    pub(super) async fn with_objects(
        &self,
        client: &Client,
        method: &str,
        objects: &[String],
    ) -> Result<Value, Problem> {
        let objects: Vec<Value> = objects.iter().map(|it| json!({"objectId": it})).collect();
        let function = format!("function(...e){{return this.{method}(...e)}}");
        self.run(client, &function, Value::Array(objects), OF_SCRIPT).await
    }

    /// The `i`-th host that may have a closed shadow root: the id of an object.
    pub(super) async fn host(&self, client: &Client, i: u64) -> Result<Option<String>, Problem> {
        let params = json!({
            "objectId": self.object,
            "functionDeclaration": "function(i){return this.host(i)}",
            "arguments": [{"value": i}],
            "returnByValue": false,
            "objectGroup": GROUP,
        });
        let answer = self.ask(client, "Runtime.callFunctionOn", params, OF_SCRIPT).await?;
        Ok(answer.pointer("/result/objectId").and_then(Value::as_str).map(str::to_owned))
    }

    async fn run(&self, client: &Client, function: &str, arguments: Value, time: Duration) -> Result<Value, Problem> {
        let params = json!({
            "objectId": self.object,
            "functionDeclaration": function,
            "arguments": arguments,
            "returnByValue": true,
            "awaitPromise": true,
        });
        let mut answer = self.ask(client, "Runtime.callFunctionOn", params, time).await?;
        match answer.get("exceptionDetails") {
            Some(_) => Err(failed(&answer)),
            None => Ok(answer["result"].take()),
        }
    }

    /// Calls a method of its process.
    pub(super) async fn ask(
        &self,
        client: &Client,
        method: &str,
        params: Value,
        time: Duration,
    ) -> Result<Value, Problem> {
        let called = client.call(Some(&self.place.session), method, &params, time).await;
        if let Err(CallError::Late(_)) = called {
            tracing::debug!(method, "a document does not answer");
        }
        called.map_err(gone)
    }
}

/// What the browser refuses about a document is about one that is gone.
fn gone(error: CallError) -> Problem {
    match error {
        CallError::Refused(_) => Problem::Gone,
        CallError::Late(time) => Problem::Stuck(time),
        other => other.into(),
    }
}

fn failed(answer: &Value) -> Problem {
    let text = answer.pointer("/exceptionDetails/exception/description").and_then(Value::as_str).unwrap_or("unknown");
    Problem::Script(super::wording::line(text, 300))
}
