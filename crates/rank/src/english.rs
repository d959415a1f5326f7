//! What people say and what tools are called: words of everyday English, and the words that tools have for the same.

/// Words of a task, and what tools call it. All of them in their base forms.
const RELATED: &[(&[&str], &[&str])] = &[
    (&["supermarket", "shop"], &["grocery", "store"]),
    (&["euro", "eur", "usd", "gbp", "dollar", "yen", "rupee"], &["currency", "exchange"]),
    (&["currency"], &["exchange", "convert"]),
    (
        &["ounce", "pound", "cup", "gram", "tablespoon", "teaspoon", "kilogram", "litre", "mile", "kilometer"],
        &["unit", "conversion", "convert"],
    ),
    (&["coin", "heads", "tails", "dice"], &["probability", "binomial"]),
    (&["chance", "odds", "likelihood"], &["probability"]),
    (&["hcf", "gcd"], &["highest", "common", "factor", "divisor"]),
    (&["far"], &["distance"]),
    (&["route"], &["direction", "map"]),
    (&["direction"], &["route", "map"]),
    (&["warm", "cold", "hot"], &["temperature", "weather"]),
    (&["humid", "rain", "snow", "sunny", "wind"], &["weather"]),
    (&["film"], &["movie"]),
    (&["movie"], &["film"]),
    (&["buy"], &["purchase", "order"]),
    (&["purchase"], &["buy"]),
    (&["photo", "picture", "screenshot"], &["image"]),
    (&["image"], &["picture"]),
    (&["delete", "erase"], &["remove"]),
    (&["remove"], &["delete"]),
    (&["create", "make"], &["add", "new"]),
    (&["mail"], &["email", "message"]),
    (&["song"], &["music"]),
    (&["crime", "criminal"], &["law"]),
    (&["calorie", "protein", "vitamin"], &["nutrition", "nutritional"]),
    (&["hotel"], &["room", "booking"]),
    (&["flight"], &["airline", "travel"]),
    (&["restaurant"], &["food", "dining"]),
    (&["player", "athlete"], &["sports"]),
    (&["war", "treaty"], &["history", "event"]),
    (&["similar"], &["similarity", "compare"]),
    (&["publish"], &["publication"]),
    (&["discover"], &["discovery"]),
    (&["invent"], &["invention"]),
    (&["integral", "derivative"], &["calculus"]),
    (&["mean", "median", "variance", "average"], &["statistics"]),
    (&["stock", "share"], &["market", "finance"]),
    (&["invest"], &["investment", "finance"]),
    (&["translate"], &["translation", "language"]),
    (&["meeting", "appointment", "schedule"], &["calendar", "event"]),
    (&["file", "folder"], &["directory", "path"]),
    (&["directory"], &["folder"]),
    (&["find", "look"], &["search"]),
    (&["search"], &["find"]),
    (&["website", "site"], &["page", "web", "browser"]),
    (&["run"], &["execute"]),
    (&["execute"], &["run"]),
    (&["bug", "ticket"], &["issue"]),
    (&["repo"], &["repository"]),
];

/// What tools call the things that a text names.
pub(crate) fn related(text: &str) -> String {
    let words = text.split(|it: char| !it.is_alphanumeric()).map(str::to_lowercase);
    let mut found = String::new();
    for word in words {
        let base = word.strip_suffix('s').filter(|it| it.len() >= 3).unwrap_or(&word);
        let of = |it: &&(&[&str], &'static [&'static str])| it.0.contains(&word.as_str()) || it.0.contains(&base);
        for (_, meant) in RELATED.iter().filter(of) {
            meant.iter().for_each(|it| found.extend([it, " "]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyday_words_lead_to_those_of_tools() {
        assert_eq!(related("How far is it?"), "distance ");
        assert_eq!(related("100 Euros in USD"), "currency exchange currency exchange ");
        assert_eq!(related("nothing of that kind"), "");
    }
}
