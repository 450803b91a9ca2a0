//! Apple's reports of a kernel panic (`panic-full`, bug types 151 and 210): the kernel's own words, whose
//! backtrace is that of the thread that panicked, and in most a stackshot of all processes.

use super::draft::{Draft, frame};
use super::fields::Fields;
use super::{Layout, stackshot, values};
use crate::report::{DamageKind, EventKind, Image, Reading, Thread, Value, limits};

/// Returns true if the body of an `.ips` is one.
pub(super) fn is_one(body: &Fields) -> bool {
    body.has("panicString") || body.has("string")
}

pub(super) fn read(mut header: Fields, mut body: Fields) -> Reading {
    let mut draft = Draft::default();
    let words = body.text("panicString").or_else(|| body.text("string"));
    let words = words.unwrap_or_default();
    for (index, image) in body.list("binaryImages").into_iter().enumerate() {
        // The list does not say to which program an image belongs.
        let image = stackshot::image_of(image, index, "");
        draft.image(image);
    }
    let task = panicked_task(&words);
    let name = task
        .as_ref()
        .map_or("kernel_task", |(_, name)| name.as_str());
    stackshot::head(&mut draft, &mut header, &mut body, name.to_owned());
    let pid = task.as_ref().map_or(0, |(pid, _)| *pid);
    draft.report.head.pid = pid;
    let event = draft.event();
    event.kind = EventKind::Other;
    event.fatal = true;
    event
        .extra
        .push(("type".into(), Value::Text("kernel panic".into())));
    event.message = words
        .lines()
        .next()
        .map(str::to_owned)
        .filter(|line| !line.is_empty());
    panicked_thread(&mut draft, &words);
    let tid = words.split("tid: ").nth(1).and_then(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse::<u64>().ok()
    });
    // The panicked process first.
    let mut processes = body.object("processByPid").into_extra();
    processes.sort_by_key(|(key, _)| key.parse() != Ok(pid));
    let (mut frames, mut left_out) = (0, 0);
    for (key, process) in processes {
        let mut process = Fields::of(process);
        let owner = process.text("procname").unwrap_or_default();
        for (index, (id, thread)) in process
            .object("threadById")
            .into_extra()
            .into_iter()
            .enumerate()
        {
            if frames > limits::FRAMES {
                left_out += 1;
                continue;
            }
            let mut thread = stackshot::thread_of(&draft, index, &id, Fields::of(thread), true);
            thread.main = false;
            let own = thread
                .name
                .take()
                .map_or(String::new(), |name| format!(": {name}"));
            thread.name = Some(format!("{owner} [{key}]{own}"));
            thread.crashed = draft.report.threads.is_empty() && tid == Some(thread.id);
            frames += thread.frames.len();
            draft.thread(thread);
        }
    }
    if left_out > 0 {
        draft.damage(
            DamageKind::Limit,
            0,
            &format!("{left_out} threads of other processes are left out"),
        );
    }
    let mut left = body;
    left.keep("panic", Fields::one("words", Value::Text(words)));
    left.keep("header", header);
    draft.finish(Layout::Ips, left)
}

/// `Panicked task 0xfffffe2012391d80: 26839 pages, 26 threads: pid 6982: com.example.app`.
fn panicked_task(words: &str) -> Option<(u64, String)> {
    let line = words
        .lines()
        .find(|line| line.starts_with("Panicked task"))?;
    let (_, behind) = line.split_once("pid ")?;
    let (pid, name) = behind.split_once(": ")?;
    Some((pid.parse().ok()?, name.trim().to_owned()))
}

/// `lr: 0xfffffff0278d45ec  fp: 0xffffffe06072b310`, a frame a line: return addresses in the kernel.
fn panicked_thread(draft: &mut Draft, words: &str) {
    let lines = words
        .lines()
        .map(str::trim)
        .filter_map(|line| line.strip_prefix("lr: "));
    let addresses = lines.filter_map(|line| values::number(line.split_whitespace().next()?));
    let addresses: Vec<u64> = addresses
        .filter(|pc| *pc != 0)
        .take(limits::FRAMES)
        .collect();
    if addresses.is_empty() {
        return;
    }
    // The kernel's address: `Kernel text base`, or `Kernel slide` and its own UUID.
    let behind = |label: &str| {
        Some(
            words
                .split_once(label)?
                .1
                .split_whitespace()
                .next()?
                .to_owned(),
        )
    };
    let base = behind("Kernel text base:").and_then(|text| values::number(&text));
    let id = behind("Kernel UUID:").map_or(Vec::new(), |text| values::id(&text));
    let highest = addresses.iter().max().copied().unwrap_or(0);
    let kernel = base.filter(|base| *base <= highest).map(|base| {
        draft.image(Image {
            name: "[kernel]".into(),
            id,
            base,
            size: (highest - base).saturating_add(1),
            ..Image::default()
        })
    });
    let inside = |pc: u64| kernel.filter(|_| base.is_some_and(|base| pc >= base));
    draft.thread(Thread {
        name: Some("panicked thread (kernel)".into()),
        crashed: true,
        frames: addresses
            .into_iter()
            .map(|pc| frame(pc, inside(pc), None))
            .collect(),
        ..Thread::default()
    });
}
