//! `numeric` values on the wire: base-10000 digits.

use std::error::Error;

/// The exact decimal text of a `numeric`.
pub(super) fn text(raw: &[u8]) -> Result<String, Box<dyn Error + Sync + Send>> {
    let mut fields = raw.chunks_exact(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
    let mut field = || fields.next().ok_or("the number is truncated");
    let (count, weight, sign, scale) = (field()?, field()?, field()?, field()?);
    let name = match sign.cast_unsigned() {
        0x0000 => "",
        0x4000 => "-",
        0xC000 => return Ok("NaN".to_owned()),
        0xD000 => return Ok("Infinity".to_owned()),
        0xF000 => return Ok("-Infinity".to_owned()),
        _ => return Err("unknown sign".into()),
    };
    let digits: Vec<i16> = (0..count).map(|_| field()).collect::<Result<_, _>>()?;
    let digit =
        |place: i32| usize::try_from(place).ok().and_then(|place| digits.get(place)).copied().unwrap_or(0);
    let (weight, scale) = (i32::from(weight), usize::try_from(scale)?);
    let mut text = String::from(name);
    let before: String = (0..=weight).map(|place| format!("{:04}", digit(place))).collect();
    let before = before.trim_start_matches('0');
    text.push_str(if before.is_empty() { "0" } else { before });
    if scale > 0 {
        let groups = i32::try_from(scale.div_ceil(4))?;
        let behind: String = (1..=groups).map(|place| format!("{:04}", digit(weight + place))).collect();
        text.push('.');
        text.push_str(behind.get(..scale).ok_or("invalid digits")?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(weight: i16, sign: u16, scale: i16, digits: &[i16]) -> Vec<u8> {
        let count = i16::try_from(digits.len()).unwrap();
        let fields = [count, weight, sign.cast_signed(), scale];
        fields.iter().chain(digits).flat_map(|field| field.to_be_bytes()).collect()
    }

    #[test]
    fn decodes_every_digit() {
        let table = [
            (raw(0, 0, 0, &[]), "0"),
            (raw(0, 0, 2, &[]), "0.00"),
            (raw(0, 0, 0, &[7]), "7"),
            (raw(1, 0, 2, &[12, 3456, 7800]), "123456.78"),
            (raw(0, 0x4000, 4, &[0, 5]), "-0.0005"),
            (raw(-1, 0, 3, &[120]), "0.012"),
            (raw(-2, 0, 8, &[1]), "0.00000001"),
            (raw(2, 0, 0, &[1]), "100000000"),
            (raw(0, 0xC000, 0, &[]), "NaN"),
        ];
        for (raw, expected) in table {
            assert_eq!(text(&raw).unwrap(), expected);
        }
        assert!(text(&[0, 1]).is_err());
        assert!(text(&raw(0, 1, 0, &[1])).is_err());
    }
}
