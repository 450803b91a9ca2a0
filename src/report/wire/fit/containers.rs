//! Elements of arrays, entries of maps, fields of structs: how each is put into what is being filled.

use std::fmt::Error;

use serde::ser::{self, Serialize};

use super::super::EXTRA;
use super::super::part::Part;
use super::OpenValue;

impl ser::SerializeSeq for OpenValue<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if let Some(skipped) = self.skipped.checked_sub(1) {
            self.skipped = skipped;
            return Ok(());
        }
        let before = self.fit.len();
        self.entry(before, value);
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

/// A tuple is whole or not at all.
impl ser::SerializeTuple for OpenValue<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.fit)?;
        self.count = self.count.saturating_add(1);
        // A tuple is whole or not at all: a short one, as each frame is, gets its count at its end.
        if self.count < 16 || self.fit.out().set_count(self.at, self.count, self.fix) {
            Ok(())
        } else {
            Err(Error)
        }
    }

    fn end(self) -> Result<(), Error> {
        if self.count < 16 {
            self.fit.out().set_count(self.at, self.count, self.fix);
        }
        self.close()
    }
}

impl ser::SerializeMap for OpenValue<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = self.fit.len();
        let may_cut = std::mem::take(&mut self.fit.may_cut);
        if key.serialize(&mut *self.fit).is_err() {
            let before = std::mem::replace(&mut self.key, usize::MAX);
            self.take_back(before);
        }
        self.fit.may_cut = may_cut;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let may_cut = self.fit.may_cut;
        if self.key != usize::MAX {
            self.entry(self.key, value);
        }
        self.fit.may_cut = may_cut;
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl ser::SerializeStruct for OpenValue<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        if self.fix == 0x90 {
            return ser::SerializeTuple::serialize_element(self, value);
        }
        if key == EXTRA {
            self.fit.splice = Some((self.at, self.count));
            value.serialize(&mut *self.fit)?;
            // The inner map is closed last and leaves its count; if it had no entries, it was never opened.
            if self.fit.splice.take().is_none() {
                self.count = self.fit.closed.1;
            }
            self.fit.is_none = false;
            return Ok(());
        }
        if !self.fit.part.is_partial() {
            self.field(key, value);
            return Ok(());
        }
        let Part { stack, skipped, .. } = self.fit.part;
        match (key, stack) {
            ("breadcrumbs", _) if skipped == usize::MAX => {}
            ("breadcrumbs", _) => {
                self.fit.skipped = skipped;
                self.field(key, value);
            }
            ("registers", Some(stack)) if !stack.has_registers => {}
            ("frames", Some(stack)) => self.field(key, &stack),
            ("omitted", Some(stack)) => {
                let held = self.fit.part.held();
                let out = self.fit.out();
                out.reserved = out.reserved.saturating_sub(held);
                self.field(key, &stack.omitted);
            }
            _ => self.field(key, value),
        }
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        match self.fix {
            0x90 => ser::SerializeTuple::end(self),
            _ => self.close(),
        }
    }
}
