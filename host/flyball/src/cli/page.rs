//! The page `docs/commands.md`, from the command line itself.

use clap::{Arg, Command};

use super::command;

const TOP: &str = "# Commands\n\n\
    Everything that `flyball` can do. `flyball COMMAND --help` prints the same. This page is generated from the commands:\n\
    `BLESS=1 cargo test --workspace --bin flyball commands_in_the_docs` writes it.\n\n\
    Commands about a running host find it by its admin socket: the only one of this user, or the one that `--admin-socket`\n\
    names.\n";

/// The page.
fn page() -> String {
    let mut command = command();
    command.build();
    let commands = command
        .get_subcommands()
        .filter(|one| one.get_name() != "help");
    let mut commands: Vec<&Command> = commands.collect();
    commands.sort_by_key(|one| one.get_name());
    let mut page = TOP.to_owned();
    page.push_str("\n| command | what it does |\n|---|---|\n");
    for one in &commands {
        let (name, about) = (one.get_name(), about(one));
        page.push_str(&format!("| [`{name}`](#flyball-{name}) | {about} |\n"));
    }
    for one in commands {
        page.push_str(&section(one, "##", &format!("flyball {}", one.get_name())));
        // Those of `cloud` are flags.
        for below in one.get_subcommands() {
            if !matches!(below.get_name(), "help" | "run") {
                let name = format!("flyball {} {}", one.get_name(), below.get_name());
                page.push_str(&section(below, "###", &name));
            }
        }
    }
    page
}

fn section(command: &Command, level: &str, full_name: &str) -> String {
    let name = command.get_name();
    let mut text = format!("\n{level} `{full_name}`\n\n");
    let long = command.get_long_about().or(command.get_about());
    let long = long.map(|text| text.to_string()).unwrap_or_default();
    for paragraph in long.split("\n\n") {
        let paragraph = escaped(paragraph.trim_end_matches('.'));
        text.push_str(&format!("{}.\n\n", paragraph.replace('\n', " ")));
    }
    if name == "run" {
        text.push_str("[Flags](flags.md) has its flags.\n");
        return text;
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    text.push_str(&format!("```text\n{usage}\n```\n"));
    let arguments = command.get_arguments();
    let arguments =
        arguments.filter(|argument| argument.get_id() != "help" && !argument.is_hide_set());
    let rows: String = arguments.map(row).collect();
    if !rows.is_empty() {
        text.push_str(&format!(
            "\n| argument | default | what it is |\n|---|---|---|\n{rows}"
        ));
    }
    text
}

fn row(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let value = values
        .first()
        .map(|name| name.to_string())
        .unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let name = match (argument.get_long(), argument.get_short()) {
        (Some(long), Some(short)) => format!("`-{short}`, `--{long}`"),
        (Some(long), None) => format!("`--{long}`"),
        (None, Some(short)) => format!("`-{short}`"),
        (None, None) => format!("`{value}`"),
    };
    let name = match takes_value && !argument.is_positional() {
        true => format!("{name} `{value}`"),
        false => name,
    };
    let defaults = argument.get_default_values().iter();
    let defaults: Vec<String> = defaults
        .filter(|_| takes_value)
        .map(|default| format!("`{}`", default.to_string_lossy()))
        .collect();
    let help = argument.get_help().map(|text| text.to_string());
    let mut help = escaped(&help.unwrap_or_default());
    let possible = argument.get_possible_values();
    if takes_value && !possible.is_empty() {
        let names: Vec<String> = possible
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        help.push_str(&format!(": {}", names.join(", ")));
    }
    format!("| {name} | {} | {help} |\n", defaults.join(", "))
}

fn about(command: &Command) -> String {
    escaped(
        &command
            .get_about()
            .map(|text| text.to_string())
            .unwrap_or_default(),
    )
}

/// A text without the marks of Markdown and of tables.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<")
}

#[test]
fn the_commands_in_the_docs_are_those_of_the_binary() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &page).expect("it is written");
    }
    let written = std::fs::read_to_string(path).expect("it is there");
    assert!(
        written == page,
        "docs/commands.md is out of date: BLESS=1 writes it"
    );
}
