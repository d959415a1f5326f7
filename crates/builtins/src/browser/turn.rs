//! A single tool call: performs the action and reports what it changed.

use std::time::{Duration, Instant};

use openskill_proto::v1::SkillError;
use serde_json::{Map, Value, json};
use url::Url;

use super::actions::{click_element, drag_drop, hover_element, input_text, options, scroll, scroll_to_text, select};
use super::changes::{self, InitialDocuments, mark, whereabouts};
use super::files::{Files, document, downloads, picture};
use super::instance::Browser;
use super::keys::press;
use super::navigate::{self, back, close, new_tab, open, replace, switch};
use super::problem::Problem;
use super::reading::{ax_tree, content, extract, page_info};
use super::tabs::Tab;
use super::tool::{self, PageAction, PageDrawing, PageLoad, PageReading, PageTool};
use super::values::Values;
use super::view::View;
use super::wording::line;
use crate::call::read_arguments as read;
use crate::config::browser::Browser as Settings;

/// The maximum duration of a wait, in seconds.
const MOST_SECONDS: f64 = 60.0;

/// The time limit for a page to prove that it is responsive.
const ANSWERS: Duration = Duration::from_secs(1);

/// A tool call with its context.
pub(super) struct ToolCall<'a> {
    pub(super) tool: PageTool,
    pub(super) input: &'a [u8],
    pub(super) files: Files<'a>,
    pub(super) settings: &'a Settings,
    pub(super) values: &'a Values,
    /// The time by which the answer must be ready.
    pub(super) until: Instant,
}

/// The result of a tool call.
pub(super) struct CallOutput {
    pub(super) data: Map<String, Value>,
    /// A one-line summary for the model.
    pub(super) text: String,
}

impl ToolCall<'_> {
    fn remaining(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Runs the call.
    ///
    /// # Errors
    /// The tool call fails. The error gives the reason.
    pub(super) async fn run(&self, browser: &mut Browser) -> Result<CallOutput, SkillError> {
        browser.show().await?;
        let (did, mut data) = match self.tool {
            PageTool::Act(action) => self.act(browser, action).await?,
            PageTool::Load(load) => self.load(browser, load).await?,
            PageTool::Draw(drawing) => self.draw(browser, drawing).await?,
            PageTool::Read(reading) => (String::new(), self.read_page(browser, reading).await?),
        };
        let downloads = downloads(browser, &self.files, self.remaining() / 2, self.settings.download_bytes).await;
        if !downloads.is_empty() {
            data.insert("downloads".to_owned(), json!(downloads));
        }
        let mut text = did.clone();
        if !did.is_empty() {
            data.shift_insert(0, "done".to_owned(), json!(did));
        }
        if let Some(url) = data.get("url").and_then(Value::as_str) {
            text = if text.is_empty() { url.to_owned() } else { format!("{text}; now at {url}") };
        }
        Ok(CallOutput { data, text: line(&text, 500) })
    }

    /// Performs a tool that acts on the current page.
    async fn act(&self, browser: &mut Browser, action: PageAction) -> Result<(String, Map<String, Value>), SkillError> {
        let (initial, view) = (InitialDocuments::now(browser), View::capture(browser).await?);
        let before = mark(&view).await?;
        let did = match action {
            PageAction::ClickElement => click_element(browser, &view, read::<tool::Index>(self.input)?.index).await?,
            PageAction::InputText => {
                let tool::IndexText { index, text } = read(self.input)?;
                input_text(browser, &view, index, &text).await?
            }
            PageAction::SelectDropdownOption => {
                let tool::IndexText { index, text } = read(self.input)?;
                select(browser, &view, index, &text).await?
            }
            PageAction::SendKeys => {
                let tool::Keys { keys } = read(self.input)?;
                press(browser, &view.tab, &keys).await?;
                format!("pressed {}", line(&keys, 60))
            }
            PageAction::DragDrop => drag_drop(browser, &view, &read(self.input)?).await?,
            PageAction::HoverElement => hover_element(browser, &view, &read(self.input)?).await?,
            PageAction::ScrollDown | PageAction::ScrollUp => {
                let is_down = action == PageAction::ScrollDown;
                scroll(&view, (is_down, read::<tool::Amount>(self.input)?.amount)).await?
            }
            PageAction::ScrollToText => scroll_to_text(browser, &view, &read::<tool::Text>(self.input)?.text).await?,
            PageAction::Wait => self.wait(read::<tool::Seconds>(self.input)?.seconds).await?,
        };
        let data = changes::since(browser, &initial, Some(&before)).await?;
        Ok((did, data))
    }

    async fn wait(&self, seconds: f64) -> Result<String, Problem> {
        if !(0.0..=MOST_SECONDS).contains(&seconds) {
            return Err(Problem::Argument(format!("seconds: must be 0 to {MOST_SECONDS}")));
        }
        let time = Duration::from_secs_f64(seconds);
        if time > self.remaining() {
            return Err(Problem::Late("the wait is longer than the time left for the call"));
        }
        tokio::time::sleep(time).await;
        Ok(format!("waited {seconds} s"))
    }

    /// Performs a tool that loads another page.
    async fn load(&self, browser: &mut Browser, load: PageLoad) -> Result<(String, Map<String, Value>), SkillError> {
        let (initial, mut note) = (InitialDocuments::now(browser), None);
        let did = match load {
            PageLoad::Navigate => {
                let url = navigate::address(&read::<tool::Address>(self.input)?.url)?;
                note = self.open(browser, &url).await?;
                format!("opened {}", line(url.as_str(), 200))
            }
            PageLoad::OpenTab => {
                let url = navigate::address(&read::<tool::Address>(self.input)?.url)?;
                // A busy page would prevent the browser from opening another one.
                let current = browser.state.tabs().current().cloned();
                if let Some(current) = current.filter(|it| !it.has_crashed)
                    && !self.answers(browser, &current).await
                {
                    browser.stop_scripts(&current).await;
                }
                let tab = new_tab(browser, self.settings.tabs).await?;
                note = open(browser, &tab, &url, self.remaining()).await?;
                format!("opened {} in the tab with page_id {}", line(url.as_str(), 200), tab.id)
            }
            PageLoad::SearchGoogle => {
                let query = read::<tool::Query>(self.input)?.query;
                let url = navigate::search_address(&self.settings.search, &query)?;
                note = self.open(browser, &url).await?;
                return self.search_results(browser, &initial, (&query, note)).await;
            }
            PageLoad::GoBack => {
                let tab = self.usable_tab(browser).await?;
                back(browser, &tab).await?;
                "went back".to_owned()
            }
            PageLoad::SwitchTab => {
                let id = read::<tool::PageId>(self.input)?.page_id;
                switch(browser, id).await?;
                format!("switched to the tab with page_id {id}")
            }
            PageLoad::CloseTab => {
                let id = read::<tool::PageId>(self.input)?.page_id;
                close(browser, id, self.settings.tabs).await?;
                format!("closed the tab with page_id {id}")
            }
        };
        let mut data = changes::since(browser, &initial, None).await?;
        data.extend(note.map(|it| ("note".to_owned(), json!(it))));
        Ok((did, data))
    }

    /// Returns the results of a search. They are an untrusted page.
    async fn search_results(
        &self,
        browser: &mut Browser,
        initial: &InitialDocuments,
        (query, note): (&str, Option<String>),
    ) -> Result<(String, Map<String, Value>), SkillError> {
        changes::settle(browser, initial, self.remaining().min(Duration::from_secs(5))).await?;
        let mut data = content(browser, None).await?;
        let url = data.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
        navigate::check_results(&url, data.get("content").unwrap_or(&Value::Null))?;
        data.extend(note.map(|it| ("note".to_owned(), json!(it))));
        Ok((format!("searched for \"{}\"", line(query, 100)), data))
    }

    /// Opens an address in the current tab. If the current page keeps loading other pages instead, replaces the
    /// tab with a new one and opens the address there.
    async fn open(&self, browser: &mut Browser, url: &Url) -> Result<Option<String>, Problem> {
        let tab = self.usable_tab(browser).await?;
        match open(browser, &tab, url, self.remaining()).await {
            Err(Problem::Overtaken) => {
                let tab = replace(browser, &tab, self.settings.tabs).await?;
                open(browser, &tab, url, self.remaining()).await
            }
            opened => opened,
        }
    }

    /// Returns whether a page is responsive.
    async fn answers(&self, browser: &Browser, tab: &Tab) -> bool {
        let (alive, session) = (json!({"expression": "0"}), Some(tab.session.as_str()));
        browser.client.call(session, "Runtime.evaluate", &alive, ANSWERS).await.is_ok()
    }

    /// Returns the current tab. Replaces it with a new one if it is gone, has crashed, or runs scripts that can't
    /// be stopped.
    async fn usable_tab(&self, browser: &mut Browser) -> Result<Tab, Problem> {
        let current = browser.state.tabs().current().cloned();
        let tab = match current {
            Some(tab) if tab.has_crashed => return replace(browser, &tab, self.settings.tabs).await,
            Some(tab) => tab,
            None => return new_tab(browser, self.settings.tabs).await,
        };
        if !self.answers(browser, &tab).await {
            browser.stop_scripts(&tab).await;
            if !self.answers(browser, &tab).await {
                return replace(browser, &tab, self.settings.tabs).await;
            }
        }
        Ok(tab)
    }

    async fn draw(
        &self,
        browser: &mut Browser,
        drawing: PageDrawing,
    ) -> Result<(String, Map<String, Value>), SkillError> {
        let tab = browser.tab()?;
        let (name, kind, drawn) = match drawing {
            PageDrawing::SavePdf => ("page.pdf".to_owned(), ("application/pdf", "pdf"), document(browser, &tab).await?),
            PageDrawing::Screenshot => {
                let name = read::<tool::FileName>(self.input)?.filename.filter(|it| !it.trim().is_empty());
                let name = name.unwrap_or_else(|| "screenshot.png".to_owned());
                (name, ("image/png", "png"), picture(browser, &tab).await?)
            }
        };
        let bytes = drawn.len();
        let path = self.files.save(&name, kind, drawn).await?;
        let mut data = whereabouts(browser)?;
        data.insert("path".to_owned(), json!(path));
        data.insert("bytes".to_owned(), json!(bytes));
        Ok((format!("saved {path}"), data))
    }

    /// Performs a tool that reads the page without changing it.
    async fn read_page(&self, browser: &mut Browser, reading: PageReading) -> Result<Map<String, Value>, SkillError> {
        Ok(match reading {
            PageReading::GetAxTree => ax_tree(browser, read::<tool::Number>(self.input)?.number_of_elements).await?,
            PageReading::GetContent => {
                let selector = read::<tool::Selector>(self.input)?.selector;
                let selector = selector.as_deref().map(str::trim).filter(|it| !it.is_empty());
                content(browser, selector).await?
            }
            PageReading::ExtractContent => {
                let goal: tool::Goal = read(self.input)?;
                let mut data = extract(browser, &goal).await?;
                self.values.add(&mut data, &goal.goal, self.until).await;
                data
            }
            PageReading::GetDropdownOptions => {
                let index = read::<tool::Index>(self.input)?.index;
                let view = View::capture(browser).await?;
                let answer = options(browser, &view, index).await?;
                let mut data = whereabouts(browser)?;
                data.extend(answer.as_object().cloned().unwrap_or_default());
                data
            }
            PageReading::GetCurrentUrl => {
                let tab = browser.state.tabs().current().cloned().ok_or(Problem::NoTab)?;
                let mut data = Map::new();
                data.insert("url".to_owned(), json!(line(&tab.url, 2000)));
                data
            }
            PageReading::GetPageInfo => page_info(browser).await?,
        })
    }
}
