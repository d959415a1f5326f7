//! Values as PostgreSQL sends and receives them.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::engine::{Row, Value};

/// Whether this is the type of a column, or of what a statement computes from columns.
fn is_known(column: &Type) -> bool {
    [Type::INT8, Type::TEXT, Type::VARCHAR, Type::BYTEA].contains(column)
}

impl ToSql for Value {
    fn to_sql(&self, parameter: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(value) => value.to_sql_checked(parameter, out),
            Self::Text(value) => value.to_sql_checked(parameter, out),
            Self::Bytes(value) => value.to_sql_checked(parameter, out),
        }
    }

    fn accepts(parameter: &Type) -> bool {
        is_known(parameter)
    }

    to_sql_checked!();
}

impl FromSql<'_> for Value {
    fn from_sql(column: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *column {
            Type::INT8 => Self::Integer(i64::from_sql(column, raw)?),
            Type::BYTEA => Self::Bytes(raw.to_owned()),
            _ => Self::Text(String::from_sql(column, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(column: &Type) -> bool {
        is_known(column)
    }
}

/// Reads the values of a row.
pub(super) fn row(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    (0..row.len()).map(|column| row.try_get(column)).collect::<Result<_, _>>().map(Row::new)
}
