//! Mach port names (`mach/port.h`): what each stands for, how many references the task holds, and
//! the messages that wait at a receive right.

use std::collections::{BTreeMap, VecDeque};

/// What a name stands for.
#[derive(Debug)]
pub enum Object {
    /// This task.
    Task,
    /// The host.
    Host,
    /// A thread, by index.
    Thread(usize),
    /// A semaphore and its count.
    Semaphore(i64),
    /// A receive right and the messages that wait.
    Receive(VecDeque<Vec<u8>>),
    /// A right to answer the exception of that thread, once.
    Reply(usize),
}

/// A name.
#[derive(Debug)]
pub struct Port {
    /// What it stands for.
    pub object: Object,
    /// User references.
    pub references: i64,
    /// Its guard, if it has one (`mach_port_guard`).
    pub guard: Option<u64>,
}

/// The task's name space.
#[derive(Debug)]
pub struct Ports {
    names: BTreeMap<u32, Port>,
    next: u32,
}

/// `mach_task_self_`.
pub const TASK: u32 = 0x203;
/// `mach_host_self`.
pub const HOST: u32 = 0x303;

impl Default for Ports {
    fn default() -> Ports {
        let mut names = BTreeMap::new();
        names.insert(
            TASK,
            Port {
                object: Object::Task,
                references: 1,
                guard: None,
            },
        );
        names.insert(
            HOST,
            Port {
                object: Object::Host,
                references: 0,
                guard: None,
            },
        );
        Ports {
            names,
            next: 0x1103,
        }
    }
}

impl Ports {
    /// A new name.
    pub fn add(&mut self, object: Object, references: i64) -> u32 {
        let name = self.next;
        self.next += 0x100;
        let port = Port {
            object,
            references,
            guard: None,
        };
        self.names.insert(name, port);
        name
    }

    /// The name of a new thread: the pthread library holds one reference.
    pub fn thread(&mut self, index: usize) -> u32 {
        self.add(Object::Thread(index), 1)
    }

    /// What a name stands for.
    pub fn get(&mut self, name: u32) -> Option<&mut Port> {
        self.names.get_mut(&name)
    }

    /// The thread that a name stands for.
    pub fn thread_of(&self, name: u32) -> Option<usize> {
        match self.names.get(&name)?.object {
            Object::Thread(index) => Some(index),
            _ => None,
        }
    }

    /// One more reference.
    pub fn retain(&mut self, name: u32) {
        if let Some(port) = self.names.get_mut(&name) {
            port.references += 1;
        }
    }

    /// `mach_port_deallocate`: false where there is no reference to give up.
    pub fn release(&mut self, name: u32) -> bool {
        match self.names.get_mut(&name) {
            Some(port) if port.references > 0 => {
                port.references -= 1;
                true
            }
            _ => false,
        }
    }

    /// How many names there are.
    pub fn names(&self) -> u64 {
        self.names.len() as u64
    }

    /// How many references to them.
    pub fn references(&self) -> u64 {
        let each = self.names.values();
        each.map(|port| port.references.max(0) as u64).sum()
    }

    /// Takes a name away.
    pub fn remove(&mut self, name: u32) -> Option<Port> {
        self.names.remove(&name)
    }
}
