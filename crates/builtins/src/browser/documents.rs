//! The openskill script in each document of a page. It runs in an isolated world, which the page's own scripts
//! can't access.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::browser::cdp::client::{CallError, Client};
use openskill_sandbox::untrusted_json;
use serde_json::{Value, json};

use super::page::{SCRIPT, WORLD};
use super::problem::Problem;

/// The time limit for one script call. The script's internal time limits are shorter.
const OF_SCRIPT: Duration = Duration::from_secs(5);

/// The maximum number of remembered documents. The oldest are forgotten first.
const MOST: usize = 256;

/// The object group for page objects that are passed to the script.
pub(super) const GROUP: &str = "openskill";

/// Identifies a document in a frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DocumentId {
    /// The session of the process that renders the document.
    pub(super) session: String,
    pub(super) frame: String,
    /// Identifies the document within its frame.
    pub(super) loader: String,
}

/// A document in which the script runs. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// Unique in this browser and never reused.
    pub(super) key: u64,
    pub(super) id: DocumentId,
    /// The execution context of the document's isolated world.
    pub(super) context: i64,
    /// The object id of the script's object.
    object: String,
    client: Client,
}

/// The documents in which the script runs.
#[derive(Debug, Default)]
pub(super) struct Documents {
    by_id: HashMap<DocumentId, Document>,
    last: u64,
    /// The listeners already reported to each document's script, by document key.
    pub(super) heard: HashMap<u64, KnownListeners>,
}

/// The elements whose listeners were already reported to a document's script.
#[derive(Debug, Default)]
pub(super) struct KnownListeners {
    pub(super) nodes: HashSet<i64>,
    /// The object id of the document in the page's own world, once requested.
    pub(super) whole: Option<String>,
}

impl Documents {
    /// Returns the document with this id. Starts the script in it if necessary.
    ///
    /// # Errors
    /// The document is gone, or the browser does not answer in time.
    pub(super) async fn open(&mut self, client: &Client, id: DocumentId) -> Result<Document, Problem> {
        if let Some(found) = self.by_id.get(&id) {
            return Ok(found.clone());
        }
        let session = Some(id.session.as_str());
        let ask = async |method, params| client.call(session, method, &params, OF_SCRIPT).await.map_err(document_error);
        let world = json!({"frameId": id.frame, "worldName": WORLD});
        let made = ask("Page.createIsolatedWorld", world).await?;
        let context = made.get("executionContextId").and_then(Value::as_i64).ok_or(Problem::Gone)?;
        let run = json!({"contextId": context, "expression": SCRIPT.as_str(), "returnByValue": false});
        let started = ask("Runtime.evaluate", run).await?;
        let object =
            started.pointer("/result/objectId").and_then(Value::as_str).ok_or_else(|| script_error(&started))?;
        self.last += 1;
        let (object, client) = (object.to_owned(), client.clone());
        let document = Document { key: self.last, id, context, object, client };
        if self.by_id.len() >= MOST
            && let Some(oldest) = self.by_id.values().min_by_key(|it| it.key).cloned()
        {
            self.forget(&oldest);
        }
        self.by_id.insert(document.id.clone(), document.clone());
        Ok(document)
    }

    /// Removes a document that no longer exists.
    pub(super) fn forget(&mut self, document: &Document) {
        self.by_id.remove(&document.id);
        self.heard.remove(&document.key);
    }
}

impl Document {
    /// Calls a function of the script.
    ///
    /// # Errors
    /// The script reports an error, the document is gone, or its page does not answer.
    pub(super) async fn call(&self, name: &str, arguments: Value) -> Result<Value, Problem> {
        self.call_within(name, arguments, OF_SCRIPT).await
    }

    /// Like [`call`](Self::call), with the time limit `time`.
    pub(super) async fn call_within(&self, name: &str, arguments: Value, time: Duration) -> Result<Value, Problem> {
        let arguments = json!([{"value": name}, {"value": arguments}]);
        let answer = self.run("function(n,a){return this.call(n,a)}", arguments, time).await?;
        let text = answer.get("value").and_then(Value::as_str).unwrap_or_default();
        let mut answer: Value =
            untrusted_json::parse(text.as_bytes()).map_err(|_| Problem::Script("no answer".to_owned()))?;
        if answer.get("ok") == Some(&Value::Bool(true)) {
            return Ok(answer["value"].take());
        }
        Err(Problem::from_page(&answer["error"]))
    }

    /// Calls a method of the script's object with page objects as arguments. Returns the result of
    /// `Runtime.callFunctionOn`.
    pub(super) async fn with_objects(&self, method: &str, objects: &[String]) -> Result<Value, Problem> {
        let objects: Vec<Value> = objects.iter().map(|it| json!({"objectId": it})).collect();
        let function = format!("function(...e){{return this.{method}(...e)}}");
        self.run(&function, Value::Array(objects), OF_SCRIPT).await
    }

    /// Returns the object id of the `i`-th host element that may have a closed shadow root.
    pub(super) async fn host(&self, i: u64) -> Result<Option<String>, Problem> {
        let params = json!({
            "objectId": self.object,
            "functionDeclaration": "function(i){return this.host(i)}",
            "arguments": [{"value": i}],
            "returnByValue": false,
            "objectGroup": GROUP,
        });
        let answer = self.ask("Runtime.callFunctionOn", params, OF_SCRIPT).await?;
        Ok(answer.pointer("/result/objectId").and_then(Value::as_str).map(str::to_owned))
    }

    async fn run(&self, function: &str, arguments: Value, time: Duration) -> Result<Value, Problem> {
        let params = json!({
            "objectId": self.object,
            "functionDeclaration": function,
            "arguments": arguments,
            "returnByValue": true,
            "awaitPromise": true,
        });
        let mut answer = self.ask("Runtime.callFunctionOn", params, time).await?;
        match answer.get("exceptionDetails") {
            Some(_) => Err(script_error(&answer)),
            None => Ok(answer["result"].take()),
        }
    }

    /// Calls a DevTools method in the document's session.
    pub(super) async fn ask(&self, method: &str, params: Value, time: Duration) -> Result<Value, Problem> {
        let called = self.client.call(Some(&self.id.session), method, &params, time).await;
        if let Err(CallError::Late(_)) = called {
            tracing::debug!(method, "a document does not answer");
        }
        called.map_err(document_error)
    }
}

/// Converts the error of a call about a document. If the browser rejects the call, the document is gone.
fn document_error(error: CallError) -> Problem {
    match error {
        CallError::Refused(_) => Problem::Gone,
        CallError::Late(time) => Problem::Stuck(time),
        other => other.into(),
    }
}

fn script_error(answer: &Value) -> Problem {
    let text = answer.pointer("/exceptionDetails/exception/description").and_then(Value::as_str).unwrap_or("unknown");
    Problem::Script(super::wording::line(text, 300))
}
