//! `openskill tools`: exports tools. The commands that install tools of an index are in `local/tools.rs`.
//!
//! Definitions go to stdout as one JSON array, which can be used as a provider's `tools`. Notes about them go to stderr.

use openskill_proto::v1::{Dialect, ExportToolsRequest, ExportToolsResponse};
use serde_json::value::RawValue;

use super::client;
use crate::args::ExportArgs;
use crate::exit::Failure;
use crate::pretty::pretty;
use crate::settings::Settings;
use crate::terminal::{print_err, print_json};

pub(super) async fn run(args: &ExportArgs, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::skills(settings).await?;
    let request = ExportToolsRequest {
        dialect: args.dialect.into(),
        strict: args.strict,
        toolset: args.toolset.clone(),
        skill_ids: args.skills.clone(),
        include_unavailable: args.all,
        query: args.query.clone(),
        limit: args.limit,
        session_id: args.session.clone(),
    };
    let exported = client.export_tools(request).await.map_err(client::into_failure(settings))?.into_inner();
    let tools: Vec<&RawValue> = exported.tools_json.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    let array = serde_json::to_string(&tools).unwrap_or_default();
    // Gemini nests its declarations one level deeper.
    let wrapped =
        if args.dialect == Dialect::Gemini { format!("[{{\"functionDeclarations\":{array}}}]") } else { array };
    print_json(&pretty(&wrapped));
    remark(args, &exported);
    Ok(())
}

fn remark(args: &ExportArgs, exported: &ExportToolsResponse) {
    for note in &exported.notes {
        print_err(&format!("note: {note}\n"));
    }
    if !args.all && !exported.disabled.is_empty() {
        let ids: Vec<_> = exported.disabled.iter().map(|it| it.skill_id.as_str()).collect();
        let count = ids.len();
        print_err(&format!("{count} unavailable tools left out (--all includes them): {}\n", ids.join(", ")));
    }
}
