//! A terminal for the binary to write to.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A pseudo-terminal. What is written to it is kept.
#[derive(Debug)]
pub struct Terminal {
    written: Arc<Mutex<String>>,
    /// The side of the program, kept open so that the reader does not end before a program starts.
    program: OwnedFd,
    reader: JoinHandle<()>,
}

impl Terminal {
    pub fn with_columns(columns: u16) -> Self {
        let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&own).unwrap();
        unlockpt(&own).unwrap();
        tcsetwinsize(&own, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&own, Vec::new()).unwrap().into_string().unwrap();
        let program = File::options().read(true).write(true).open(name).unwrap();
        let written = Arc::<Mutex<String>>::default();
        let (kept, mut own) = (Arc::clone(&written), File::from(own));
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // An error is the end: nobody has the other side open.
            while let Ok(bytes @ 1..) = own.read(&mut piece) {
                kept.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..bytes]).replace('\r', ""));
            }
        });
        Self { written, program: program.into(), reader }
    }

    /// Makes it a program's stdout or stderr.
    pub fn stdio(&self) -> Stdio {
        self.program.try_clone().unwrap().into()
    }

    /// What was written so far.
    pub fn text(&self) -> String {
        self.written.lock().unwrap().clone()
    }

    /// All that was written, once every program has closed it.
    pub fn whole(self) -> String {
        let Self { written, program, reader } = self;
        drop(program);
        reader.join().unwrap();
        written.lock().unwrap().clone()
    }
}
